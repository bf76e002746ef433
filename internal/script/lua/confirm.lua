-- confirm: renew, on a node of a quorum. It never creates a lease.
--
-- KEYS  K, fence, queue, clients (and last of all the epoch)
-- ARGV  owner, ttl ms, got (what a majority gave it)
-- Reply 1 if the owner is inside, with what a majority gave it, else 0
-- Cost  2 commands; for a mutex

-- cold
return extend(ARGV[1], tonumber(ARGV[2])) and agrees(ARGV[1], ARGV[3]) and 1 or 0
