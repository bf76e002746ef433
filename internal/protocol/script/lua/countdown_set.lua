-- countdown_set: set the count of a countdown, unless it is above zero, which begins a round. Sent
-- twice, it means one: the second finds its owner among what has counted, or the fence has moved on.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s, owner (of the request), count, ms for which it lasts after each change, fence as
--       the caller knows it (-1 to be told it)
-- Reply {1, count}    set, by this request or an earlier copy of it; the count of now
--       {0, count}    not set: the count is above zero
--       {2, fence}    not set: this is the last token of the name, 0 if there is none; ask with it
--       {-1, reason}  the name is of another kind
-- Cost  3 commands to be told, and 11 to set

-- cold
local owner = ARGV[2]
local s, reason = state()
if reason then return {-1, reason} end
if s and redis.call('ZSCORE', K, owner) then return {1, s.left} end
if s and s.left > 0 then return {0, s.left} end
-- It is tempting to set it here and now. But a late copy of the request could do so again, when the
-- count has been deleted, or was counted down. A count that is set moves the fence on.
local fence = tonumber(redis.call('GET', FENCE) or 0)
if tonumber(ARGV[5]) ~= fence then return {2, fence} end
-- The fence comes first: a server that is out of memory refuses a script whose first write could need
-- some. PEXPIRE comes next, and again: a user that may not run it, or what follows, must not leave a
-- count for ever.
local round = mint()
redis.call('PEXPIRE', K, ARGV[4])
local ended = s and s.ended .. string.format(',%.0f', s.round) or ''
ended = string.match(ended, string.rep(',%d+', ENDED) .. '$') or ended
-- Tickets of a count that has vanished are in the way of none. Their waiters learn it when they
-- ask.
if not s then redis.call('DEL', QUEUE, CLIENTS) end
write({text = s and s.text, left = tonumber(ARGV[3]), of = ARGV[3], ms = ARGV[4], round = round, first = s and s.first or round, ended = ended})
redis.call('PEXPIRE', K, ARGV[4])
forget()
redis.call('ZADD', K, now(), owner)
return {1, tonumber(ARGV[3])}
