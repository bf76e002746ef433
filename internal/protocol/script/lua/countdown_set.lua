-- countdown_set: set the count of a countdown, unless it is above zero, which begins a round. Sent
-- twice, it means one: the second finds its owner among what has counted.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s, owner (of the request), count, ms for which it lasts after each change
-- Reply {1, count}    set, by this request or an earlier copy of it; the count of now
--       {0, count}    not set: the count is above zero
--       {-1, reason}  the name is of another kind
-- Cost  9 commands

-- cold
local owner = ARGV[2]
local s, reason = state()
if reason then return {-1, reason} end
if s and redis.call('ZSCORE', K, owner) then return {1, s.left} end
if s and s.left > 0 then return {0, s.left} end
-- Tickets of a count that has vanished are in the way of none. Their waiters learn it when they
-- ask.
if not s then redis.call('DEL', QUEUE, CLIENTS) end
local round = mint()
write({text = s and s.text, left = tonumber(ARGV[3]), of = ARGV[3], ms = ARGV[4], round = round, first = s and s.first or round})
forget()
redis.call('ZADD', K, now(), owner)
redis.call('PEXPIRE', K, ARGV[4])
return {1, tonumber(ARGV[3])}
