-- adopt: give a lease another owner, and its full TTL again. Sent twice, it means one: the second
-- finds the new owner inside. It never creates a lease. On one server it tells the first in line,
-- since that may be less than before.
--
-- KEYS  K, fence, queue, clients (and last of all the epoch on a node of a quorum)
-- ARGV  owner, ttl ms, new owner, detail (what the acquisition gave it), bound ms (as in vote.lua; on
--       one server of no use)
-- Reply 1 if the owner or the new owner was inside, with that detail, else 0
-- Cost  7 commands if the line is empty, about 13 if not; for a mutex

-- cold
local owner, ttl, successor = ARGV[1], tonumber(ARGV[2]), ARGV[3]
-- A request that is late finds the successor inside, whose lease may be longer by then.
if not knows() then return 0 end
-- extend comes first: a server that is out of memory refuses a script whose first write could need
-- some. A node of a quorum that has let the successor in has both inside. A rename would
-- bring the slot of the old owner, and the slot of the successor would stay taken.
if extend(successor, ttl) then
  leave(owner, '1')
elseif extend(owner, ttl, true) then
  rename(owner, successor)
else
  return 0
end
bind(ARGV[5])
tell_first()
return agrees(successor, ARGV[4]) and 1 or 0
