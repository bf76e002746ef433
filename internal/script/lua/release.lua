-- release: leave the latch, or the line, whichever the owner is in, and let in who is next. Sent twice, it means one.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s, owner, ticket ('' if it never stood in line), result (how the work ended, for the kind)
-- Reply 0 if the owner was not inside, else 1 and the number of holds it has left
-- Cost  3 commands if nobody waits, about 10 with a hand-over; for a mutex

local left = leave(ARGV[2], ARGV[4])
if left and ARGV[3] == '' and redis.call('EXISTS', QUEUE) == 0 then return 1 + left end

-- cold
local gone = ARGV[3] ~= '' and redis.call('ZREM', QUEUE, ARGV[3]) == 1
if left or gone then grant('', gone) end
return left and 1 + left or 0
