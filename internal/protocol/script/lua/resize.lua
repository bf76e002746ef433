-- resize: change how many may be inside, for acquisitions that come from now on. Owners inside
-- stay, and waiters go on waiting.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s, n
-- Reply {kind, n before}, both '' if no owner is inside: then there is nothing to change
-- Cost  as release, and 4

-- cold
local kind, before = resize(ARGV[2])
-- Tickets in line know the size of before.
if kind == KIND and redis.call('EXISTS', QUEUE) == 1 then keep_keys(LINE_TTL) end
grant('', false)
return {kind, before}
