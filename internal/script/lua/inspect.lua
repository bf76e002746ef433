-- inspect: who is inside and who is in line, at one moment. It changes nothing.
--
-- KEYS  K, fence, queue, clients
-- ARGV  none
-- Reply {type of K, fence or '', remaining ms, {{owner, ms left}, ...}, {ticket, arrival, ...}}; no owners if the type is not the kind's
-- Cost  6 commands; it reads the whole line

-- cold
local kind = redis.call('TYPE', KEYS[1]).ok
local ok, inside = pcall(holders)
return {kind, redis.call('GET', FENCE) or '', redis.call('PTTL', KEYS[1]), ok and inside or {}, redis.call('ZRANGE', QUEUE, 0, -1, 'WITHSCORES')}
