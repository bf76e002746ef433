-- confirm: give a lease so many ms from now on, if it has less, on a node of a quorum. It never
-- creates one.
--
-- KEYS  K, fence, queue, clients (and last of all the epoch)
-- ARGV  owner, ttl ms, detail (what a majority gave it)
-- Reply 1 if the owner is inside, with that detail, else 0
-- Cost  3 commands; for a mutex

-- cold
return extend(ARGV[1], tonumber(ARGV[2])) and agrees(ARGV[1], ARGV[3]) and 1 or 0
