-- acquire: get in, or take a place in line. Sent twice, it means one: the second finds the owner inside, or its ticket in line.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s, owner, ttl ms, arg, ticket ('' to not wait), address, horizon ms, arrival (0 if new)
-- Reply token                                        inside, and got nothing else
--       {1, token, got}                             inside
--       {0, remaining ms, foreign, arrival, first}   not inside; in line since then, first or not, if a ticket was given
--       {-1, reason}                                 not inside, and waiting cannot help
-- Cost  4 commands if it is free, 9 to 12 to stand in line; for a mutex

local owner, ttl, arg, ticket, address = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local token, got

if redis.call('EXISTS', QUEUE) == 0 then
  token, got = admit(owner, ttl, arg)
  if token then return got == '' and token or {1, token, got} end
end

-- cold
if extend(owner, ttl) then return inside(owner) end
if not got then token, got = join(owner, ttl, arg) end
if token then return {1, token, got} end
if got then return {-1, got} end

local last = redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')
local kind = last[1] and string.match(last[1], '^%u(%l+)')
if kind and kind ~= KIND then return {-1, 'kind\t' .. kind} end
last = last[2]
-- The score is the arrival in microseconds, made unique, since equal scores would be ordered by the text of the ticket.
local arrival, first = tonumber(ARGV[8]), not last
if ticket ~= '' then
  if arrival == 0 then arrival = last and math.max(now(), tonumber(last) + 1) or now() end
  believe(address, ARGV[7])
  if redis.call('ZADD', QUEUE, 'NX', arrival, ticket) == 0 then arrival = redis.call('ZSCORE', QUEUE, ticket) end
  if first then keep() else first = redis.call('ZRANGE', QUEUE, 0, 0)[1] == ticket end
end
local ms = remaining()
if last and (ms == -2 or ms == 0) then
  grant(address, false)
  if ticket ~= '' and extend(owner, ttl) then return inside(owner) end
end
return {0, ms, first and foreign() and 1 or 0, arrival, first and 1 or 0}
