-- await: the heartbeat of a client that waits, once for all its tickets on this latch. It says that the client is alive, hands the latch
-- on if it is free, and tells how each ticket stands; a lease that turns out to be granted starts anew with its full TTL.
-- It puts no ticket back that is missing: this request may have been on its way for long, and the owner may have been in and out since.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s, address, horizon ms, then for each ticket: ticket
-- Reply {remaining ms, foreign, ahead, then for each ticket: {1, token, got} inside, {0} in line or {} neither}; ahead of the first of them
-- Cost  about 11 commands, and 2 for each ticket; for a mutex

-- cold
local address = ARGV[2]

keep() -- first: a server that is out of memory allows PEXPIRE, and ZADD after it
believe(address, ARGV[3])
local unfinished = grant(address, true)

local reply, ahead = {0, 0, 0}, -1
for i = 4, #ARGV do
  local ttl, owner = string.match(ARGV[i], '^%u%l+\t[^\t]*\t(%d+)\t[^\t]*\t(.*)$')
  local rank = redis.call('ZRANK', QUEUE, ARGV[i])
  if rank then
    if ahead < 0 or rank < ahead then ahead = rank end
    reply[#reply + 1] = {0}
  else
    reply[#reply + 1] = extend(owner, tonumber(ttl)) and inside(owner) or {}
  end
end
reply[1], reply[2], reply[3] = remaining(), foreign() and 1 or 0, ahead
if unfinished then reply[1], reply[3] = 0, 0 end -- as for the first in line of a lease that has run out: ask again at once
return reply
