-- renew: give a lease so many ms from now on, if it has less. It never creates one.
--
-- KEYS  K, fence, queue, clients (and after those of the kind the forced releases)
-- ARGV  owner, ttl ms, 1 to shorten it as well (absent if not)
-- Reply 1                the owner is inside
--       {0, note, fence} it is not; what is remembered of the process that took the latch by force,
--                        or '', and the last token of the name, or ''
-- Cost  3 commands; for a mutex

if extend(ARGV[1], tonumber(ARGV[2]), ARGV[3]) then return 1 end

-- cold
return {0, redis.call('HGET', FORCED, 'of ' .. ARGV[1]) or '', redis.call('GET', FENCE) or ''}
