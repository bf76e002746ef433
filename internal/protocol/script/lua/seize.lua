-- seize: take the latch from an owner by force, or open what the owner left shut, and let the
-- successor in past the line, in one step. No waiter gets in between. With no owner it takes a
-- latch that is free. The rest is as in force.lua. Sent twice, it means one.
--
-- KEYS  K, fence, queue, clients (and after those of the kind the forced releases)
-- ARGV  fence ttl s, owner ('' if the latch is free), address of the owner's client ('' if
--       unknown), in a cluster also its sharded channel for this name (else ''), what to remember,
--       ttl ms of that, successor, ttl ms, param
-- Reply {1, token, detail} the successor is inside
--       {0, occupant or ''} it is not: the owner was not inside, or the latch was not free
-- Cost  as force, and 5

-- cold
local owner, successor, ttl = ARGV[2], ARGV[7], tonumber(ARGV[8])
if extend(successor, ttl) then return inside_reply(successor) end
-- The key of a mutex is written over. It is tempting to delete it and to let the successor in. But while
-- its slot moves to another node, a key that was deleted does not come back.
local inside = owner ~= '' and KIND == 'mutex' and extend(owner, ttl, true)
local taken = owner ~= '' and (inside or leave(owner) or open(owner))
if owner ~= '' and not taken then
  foreign()
  return {0, occupant()}
end
local token, detail
if inside then
  rename(owner, successor)
  token, detail = mint(tonumber(ARGV[9])), ''
else
  token, detail = admit(successor, ttl, ARGV[9])
end
if taken then tell_forced(owner, ARGV[5], ARGV[6], ARGV[3], ARGV[4]) end
if token then
  tell_first()
  return {1, token, detail}
end
if taken then grant('', false) end
foreign()
return {0, occupant()}
