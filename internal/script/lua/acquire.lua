-- acquire: get in, or take a place in line. Sent twice, it means one: the second finds the owner inside, or its ticket in line.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s, owner, ttl ms, arg, ticket ('' to not wait), address, horizon ms, arrival (0 if new), most (of waiters; absent if any)
-- Reply token                                        inside, and got nothing else
--       {1, token, got}                             inside
--       {0, remaining ms, foreign, arrival, first}   not inside; in line since then, first or not, if a ticket was given
--       {-1, reason}                                 not inside, and waiting cannot help
--       error BUSY                                   so many dead waiters were dropped that it is time for others; ask again
-- Cost  4 commands if it is free, 9 to 12 to stand in line, 2 more with a bound on it; for a mutex

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

local function last()
  return redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')
end

local function busy()
  return redis.error_reply('BUSY dropping the tickets of many dead waiters')
end

-- long reports whether as many tickets stand in line as the caller allows, of the dead and the living, and its own is not among them.
local most = tonumber(ARGV[9])
local function long()
  return most and redis.call('ZCARD', QUEUE) >= most and not redis.call('ZSCORE', QUEUE, ticket)
end

-- living counts the tickets of living clients, up to so many. It drops the others that it meets, as grant does.
local function living()
  local from, found = 0, 0
  while found < most and spent < BUDGET do
    local line, dead = redis.call('ZRANGE', QUEUE, from, from + 999), {}
    if not line[1] then return found end
    for _, other in ipairs(line) do
      if alive(other, address) > 0 then found = found + 1 else dead[#dead + 1] = other end
    end
    if dead[1] then redis.call('ZREM', QUEUE, unpack(dead)) end
    from, spent = from + #line - #dead, spent + #dead
  end
  return found
end

-- Waiters in line may be dead, and the caller must not be refused on their account, waiting or trying. Where a kind never leaves room while
-- somebody waits, that can only be when a lease has run out.
local ms, tail = remaining(), last()
if tail[1] and (ROOMY or ms == -2 or ms == 0 or long()) then
  if grant(address, false) then return busy() end
  if extend(owner, ttl) then return inside(owner) end
  tail = last()
  if not tail[1] then
    token, got = admit(owner, ttl, arg)
    if token then return {1, token, got} end
    if got then return {-1, got} end
  end
  ms = remaining()
end
local kind = tail[1] and string.match(tail[1], '^%u(%l+)')
if kind and kind ~= KIND then return {-1, 'kind\t' .. kind} end
if long() then
  if living() >= most then return {-1, 'full\t' .. most} end
  if spent >= BUDGET then return busy() end
end

-- The score is the arrival in microseconds, made unique, since equal scores would be ordered by the text of the ticket.
local arrival, first = tonumber(ARGV[8]), not tail[1]
if ticket ~= '' then
  if arrival == 0 then arrival = tail[2] and math.max(now(), tonumber(tail[2]) + 1) or now() end
  if redis.call('ZADD', QUEUE, 'NX', arrival, ticket) == 0 then arrival = redis.call('ZSCORE', QUEUE, ticket) end
  -- Waits may all be shorter than a heartbeat, so that no await ever comes: newcomers have to keep the line as well.
  if not believe(address, ARGV[7]) and (first or redis.call('PTTL', QUEUE) < LINGER / 2) then keep() end
  if not first then first = redis.call('ZRANGE', QUEUE, 0, 0)[1] == ticket end
end
return {0, ms, first and foreign() and 1 or 0, arrival, first and 1 or 0}
