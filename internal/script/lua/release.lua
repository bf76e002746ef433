-- release: leave the latch, or the line, whichever the owner is in, and let in who is next. Sent twice, it means one.
--
-- KEYS  K, fence, queue, clients
-- ARGV  owner, ticket ('' if it never stood in line), fence ttl s
-- Reply 1 if the owner was inside, else 0
-- Cost  3 commands if nobody waits, about 10 with a hand-over

local left = leave(ARGV[1])
if left and ARGV[2] == '' and redis.call('EXISTS', QUEUE) == 0 then return 1 end

-- cold
local gone = ARGV[2] ~= '' and redis.call('ZREM', QUEUE, ARGV[2]) == 1
if left or gone then grant('', ARGV[3], gone) end
return left and 1 or 0
