-- confirm: give a lease so many ms from now on, if it has less, on a node of a quorum. It never
-- creates one.
--
-- KEYS  K, fence, queue, clients (and last of all the epoch)
-- ARGV  owner, ttl ms, detail (what a majority gave it)
-- Reply 1 if the owner is inside, with that detail; else 0, or, if no other owner has that place,
--       the last number of the name here with a minus. See mend.lua.
-- Cost  3 commands; for a mutex

-- cold
if extend(ARGV[1], tonumber(ARGV[2])) and agrees(ARGV[1], ARGV[3]) then return 1 end
local free = KIND == 'slotpool' and vacant(ARGV[1], ARGV[3]) or KIND == 'job' and closed_by(ARGV[1])
  or remaining() == -2
return free and -(redis.call('GET', FENCE) or 0) or 0
