-- countdown_delete: delete the count of a round, and have its waiters ask. Sent twice, it means
-- one: the second finds no such round.
--
-- KEYS  K, fence, queue, clients
-- ARGV  round
-- Reply 1 if it was there, else 0
-- Cost  5 commands, and one for each client that waits

-- cold
local s = state()
if not s or s.round ~= tonumber(ARGV[1]) then return 0 end
redis.call('DEL', K)
tell_zero(0)
return 1
