-- release: leave the latch, or the line, whichever the owner is in, and let in who is next. Sent twice, it means one.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s, owner, ticket ('' if it never stood in line), result (how the work ended, for the kind), token, hold ms (both absent without a minimal hold)
-- Reply 0 if the owner was not inside, else 1 and the number of holds it has left
-- Cost  3 commands if nobody waits, about 10 with a hand-over or a minimal hold; for a mutex

local left = not ARGV[5] and leave(ARGV[2], ARGV[4])
if left and ARGV[3] == '' and redis.call('EXISTS', QUEUE) == 0 then return 1 + left end

-- cold
-- A token tells when its lease began: it is the server's time in microseconds, or more if the clock was set back. What is kept shut is so
-- until a whole millisecond, and no less than asked for.
local ms = 0
if ARGV[5] then
  ms = math.min(ARGV[6] + 1, math.ceil(ARGV[5] / 1000) + ARGV[6] - math.floor(now() / 1000))
  if ms > 0 then left = shut(ARGV[2], ms) else left = leave(ARGV[2], ARGV[4]) end
end
local gone = ARGV[3] ~= '' and redis.call('ZREM', QUEUE, ARGV[3]) == 1
if left or gone then grant('', gone or ms > 0) end
return left and 1 + left or 0
