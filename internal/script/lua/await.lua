-- await: the heartbeat of a client that waits, once for all its tickets on this latch. It says that the client is alive, puts back
-- tickets that were lost, hands the latch on if it is free, and tells how each ticket stands; a lease that turns out to be granted
-- starts anew with its full TTL.
--
-- KEYS  K, fence, queue, clients
-- ARGV  address, horizon ms, fence ttl s, then for each ticket: ticket, arrival
-- Reply {remaining ms, foreign, ahead, then for each ticket: {1, token, got} inside or {0} in line}; ahead is for the first one in line
-- Cost  about 9 commands, and 3 for each ticket

-- cold
local address, fence_ttl = ARGV[1], ARGV[3]
local found = {}

local function check(ticket)
  local ttl, owner = string.match(ticket, '^%u\t[^\t]*\t(%d+)\t[^\t]*\t(.*)$')
  if extend(owner, ttl) then found[ticket] = inside(owner, fence_ttl) end
  return found[ticket]
end

believe(address, now(), ARGV[2])
for i = 4, #ARGV, 2 do
  if not check(ARGV[i]) then redis.call('ZADD', QUEUE, 'NX', ARGV[i + 1], ARGV[i]) end
end
keep()
grant(address, fence_ttl, true)

local reply, ahead = {0, 0, 0}, -1
for i = 4, #ARGV, 2 do
  local rank = redis.call('ZRANK', QUEUE, ARGV[i])
  if rank and (ahead < 0 or rank < ahead) then ahead = rank end
  reply[#reply + 1] = found[ARGV[i]] or not rank and check(ARGV[i]) or {0}
end
reply[1], reply[2] = remaining(), foreign() and 1 or 0
reply[3] = ahead
return reply
