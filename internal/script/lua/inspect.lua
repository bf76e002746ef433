-- inspect: who is inside and who is in line, at one moment. It changes nothing.
--
-- KEYS  K, fence, queue, clients
-- ARGV  none
-- Reply {fence or '', remaining ms, {{owner, ms left, token, got, resting}, ...}, {ticket, arrival, ...}}; no owners if K is of another type
-- Cost  4 commands, and those of the kind; it reads everybody inside and the whole line

-- cold
local ok, inside = pcall(holders)
return {redis.call('GET', FENCE) or '', redis.call('PTTL', K), ok and inside or {}, redis.call('ZRANGE', QUEUE, 0, -1, 'WITHSCORES')}
