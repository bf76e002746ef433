-- What tells the waiters of a countdown.

-- cold
-- tell_zero publishes to each client in line that the count of a round is zero, and ends the line.
-- Round 0 has them ask. If the caller may not publish, or a message is lost, they find it at their
-- next heartbeat.
local function tell_zero(round)
  local told = {}
  for _, ticket in ipairs(redis.call('ZRANGE', QUEUE, 0, -1)) do
    local mode, _, address = parse(ticket)
    if mode and not told[address] then
      told[address] = true
      publish(mode, address, string.format('zero\t%.0f\t%s', round, K))
    end
  end
  redis.call('DEL', QUEUE, CLIENTS)
end
