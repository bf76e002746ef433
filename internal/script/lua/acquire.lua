-- acquire: get in, or take a place in line. Sent twice, it means one: the second finds the owner inside, or its ticket in line.
--
-- KEYS  K, fence, queue, clients
-- ARGV  owner, ttl ms, arg, fence ttl s, ticket ('' to not wait), address, horizon ms, arrival (0 if new)
-- Reply token                                        inside, and got nothing else
--       {1, token, got}                             inside
--       {0, remaining ms, foreign, arrival, first}   not inside; in line since then, first or not, if a ticket was given
-- Cost  4 commands if it is free, 9 to 12 to stand in line

local owner, ttl, fence_ttl, ticket, address = ARGV[1], tonumber(ARGV[2]), ARGV[4], ARGV[5], ARGV[6]

if redis.call('EXISTS', QUEUE) == 0 then
  local got = admit(owner, ttl, ARGV[3])
  if got then
    local token = mint(now(), fence_ttl)
    return got == '' and token or {1, token, got}
  end
end

-- cold
if extend(owner, ttl) then return inside(owner, fence_ttl) end

local last = redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')[2]
-- The score is the arrival in microseconds, made unique, since equal scores would be ordered by the text of the ticket.
local arrival, first = tonumber(ARGV[8]), not last
if ticket ~= '' then
  local time = now()
  if arrival == 0 then arrival = last and math.max(time, tonumber(last) + 1) or time end
  believe(address, time, ARGV[7])
  if redis.call('ZADD', QUEUE, 'NX', arrival, ticket) == 0 then arrival = redis.call('ZSCORE', QUEUE, ticket) end
  if first then keep() else first = redis.call('ZRANGE', QUEUE, 0, 0)[1] == ticket end
end
local ms = remaining()
if last and ms == -2 then
  grant(address, fence_ttl, false)
  if ticket ~= '' and extend(owner, ttl) then return inside(owner, fence_ttl) end
end
return {0, ms, first and foreign() and 1 or 0, arrival, first and 1 or 0}
