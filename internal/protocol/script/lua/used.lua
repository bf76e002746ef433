-- used: answer those that ask for a latch that may be kept only: its program is inside. It changes
-- nothing about the lease.
--
-- CLIENTS keeps the answer: "used" and the owner, separated by a tab, at a negative score: the
-- server's time in ms until which it is of use. See mark_alive.
--
-- KEYS  K, fence, queue, clients (and after those of the kind)
-- ARGV  owner, ms for which to remember it
-- Reply 1 if the owner is inside, else 0
-- Cost  6 commands, 7 if there is no line yet; for a mutex

-- cold
if not extend(ARGV[1], 0) then return 0 end
local ms = math.floor(now() / 1000)
redis.call('ZREMRANGEBYSCORE', CLIENTS, -ms, 0)
keep_word('used\t' .. ARGV[1], ms, ARGV[2])
return 1
