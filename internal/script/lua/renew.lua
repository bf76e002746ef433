-- renew: give a lease its full TTL again. It never creates one.
--
-- KEYS  K, fence, queue, clients
-- ARGV  owner, ttl ms
-- Reply 1 if the owner is inside, else 0
-- Cost  2 commands; for a mutex

return extend(ARGV[1], tonumber(ARGV[2])) and 1 or 0
