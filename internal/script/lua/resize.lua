-- resize: change how many may be inside, for those who come from now on. Whoever is inside stays, and whoever waits goes on waiting.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s, n
-- Reply {kind, n before}, both '' if nobody is inside: then there is nothing to change
-- Cost  as release, and 4

-- cold
local kind, before = resize(ARGV[2])
if kind ~= '' and redis.call('EXISTS', QUEUE) == 1 then outlive(LINGER) end -- those in line know the size of before
grant('', false)
return {kind, before}
