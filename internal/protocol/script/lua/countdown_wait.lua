-- countdown_wait: read the count, and with a ticket stand in line until it is zero. Sent again, it
-- is the heartbeat of the waiter.
--
-- KEYS  K, fence, queue, clients
-- ARGV  round (0 if it is not known), ticket ('' to not wait), address, live for ms
-- Reply {1, count, round, set to}  the count of the round; 0 also if a later one has begun: a count
--                                  that is there is set anew only when it is zero
--       {0}                        there is no count, or that of the round is gone, or never was in
--                                  this copy of the data, which may be older
--       {-1, reason}               the name is of another kind
-- Cost  1 command; 8 with a ticket, 10 the first time

-- cold
local s, reason = state()
if reason then return {-1, reason} end
local round, ticket, address = tonumber(ARGV[1]), ARGV[2], ARGV[3]
if not s or round > 0 and (round < s.first or round > s.round) then return {0} end
if round > 0 and round < s.round then
  local oldest = tonumber(string.match(s.ended, '%d+')) -- of those that are known
  if round > oldest and not string.find(s.ended .. ',', string.format(',%.0f,', round), 1, true) then return {0} end
  return {1, 0, round, 0}
end
if ticket ~= '' and s.left > 0 then
  -- PEXPIRE comes first: a server that is out of memory allows it, and ZADD after it.
  keep_line()
  local new = redis.call('ZADD', QUEUE, 'NX', now(), ticket) == 1
  if not mark_alive(address, ARGV[4]) and new then keep_line() end
  head(address) -- drops the dead before the first that lives
end
return {1, s.left, s.round, tonumber(s.of)}
