-- acquire: get in, or take a place in line. Sent twice, it means one: the second finds the owner inside, or its ticket in line.
--
-- KEYS  K, fence, queue, clients
-- ARGV  owner, ttl ms, arg, fence ttl s, ticket ('' to not wait), address, horizon ms
-- Reply {1, token, got}                              inside
--       {0, remaining ms, ours, arrival, ahead}      not inside; in line since then, behind so many, if a ticket was given
-- Cost  4 commands if it is free, about 12 to stand in line

local owner, ttl, fence_ttl, ticket, address = ARGV[1], tonumber(ARGV[2]), ARGV[4], ARGV[5], ARGV[6]

if redis.call('EXISTS', QUEUE) == 0 then
  local got = admit(owner, ttl, ARGV[3])
  if got then return {1, mint(now(), fence_ttl), got} end
end
if extend(owner, ttl) then return inside(owner, fence_ttl) end

if ticket ~= '' then
  believe(address, ARGV[7])
  stand(ticket, 0)
end
local ms, ours = remaining()
if ms == -2 then
  grant(address, fence_ttl, false)
  if ticket ~= '' and extend(owner, ttl) then return inside(owner, fence_ttl) end
  ms, ours = remaining()
end
if ticket == '' then return {0, ms, ours, 0, 0} end
return {0, ms, ours, redis.call('ZSCORE', QUEUE, ticket), redis.call('ZRANK', QUEUE, ticket)}
