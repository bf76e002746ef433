-- acquire: get in, or take a place in line. Sent twice, it means one: the second finds the owner
-- inside, or its ticket in line.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s, owner, ttl ms, param, ticket ('' to not wait), address, live for ms,
--       arrival (0 if new), most (of waiters; absent if any)
-- Reply token                                      inside, without a detail
--       {1, token, detail}                         inside
--       {0, remaining ms, foreign, arrival, first, occupant, fence}
--                                                  not inside, but the occupant, if known; with a
--                                                  ticket: in line since then, first (1, or 2 if the
--                                                  client that may only keep the latch is told) or
--                                                  not, and the last token of the name, 0 if there
--                                                  is none
--       {-1, reason}                               not inside, and waiting cannot help
--       error BUSY                                 so many tickets of the dead were dropped that it
--                                                  is time for other requests; ask again
-- Cost  4 commands if it is free, 10 to 14 with a place in line, 2 more if the line is bounded (2
--       for each client in it, when that is counted), a message if a client may only keep it; for a
--       mutex

local owner, ttl, param, ticket, address = ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local waited = ARGV[8] ~= '0' -- whatever the size is now: the line was lost, or the place
local token, detail

if not tried and redis.call('EXISTS', QUEUE) == 0 then
  token, detail = admit(owner, ttl, param, waited)
  if token then return detail == '' and token or {1, token, detail} end
end

-- cold
if extend(owner, ttl) then return inside_reply(owner) end
if not detail then token, detail = join(owner, ttl, param, waited) end
if detail and not token and ticket ~= '' and redis.call('ZSCORE', QUEUE, ticket) then
  waited = true -- this is sent again, and has its place already
  token, detail = join(owner, ttl, param, waited)
end
if token then
  if ticket ~= '' then redis.call('ZREM', QUEUE, ticket) end -- it may be in line, if this is sent again
  return {1, token, detail}
end

local function last()
  return redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')
end

local function busy()
  return redis.error_reply('BUSY dropping the tickets of many dead waiters')
end

-- line_full reports whether as many tickets are in line as the caller allows, those of dead clients
-- included, and the caller's is not among them.
local most = tonumber(ARGV[9])
local function line_full()
  return most and redis.call('ZCARD', QUEUE) >= most and not redis.call('ZSCORE', QUEUE, ticket)
end

-- found_full reports whether a caller with the same bound has just found the line full, by counting.
-- What has more time left is from before the clock was set back.
local FULL_MS = 50 -- for which that is remembered
local full = 'full\t' .. (most or '')
local function found_full()
  local left = -tonumber(redis.call('ZSCORE', CLIENTS, full) or 0) - now() / 1000
  return left > 0 and left <= FULL_MS
end

-- count_living returns the number of tickets of living clients, most if there are more. It drops
-- those of dead clients that it meets, as grant does.
local function count_living()
  local from, found = 0, 0
  while found < most and spent < BUDGET do
    local line, dead = redis.call('ZRANGE', QUEUE, from, from + 999), {}
    if not line[1] then return found end
    for _, other in ipairs(line) do
      if alive_for(other, address) > 0 then found = found + 1 else dead[#dead + 1] = other end
    end
    if dead[1] then redis.call('ZREM', QUEUE, unpack(dead)) end
    from, spent = from + #line - #dead, spent + #dead
  end
  return found
end

-- Tickets in line may be those of dead clients, and the caller must not be refused on their
-- account, waiting or trying. In a kind that never leaves room while tickets are in line, that can
-- only be when a lease has expired. So can the reason not to let the caller in be what the dead have
-- left, such as a size.
local ms, tail = remaining(), last()
if tail[1] and (ROOMY or ms == -2 or ms == 0 or line_full()) then
  if grant(address, false) then return busy() end
  if extend(owner, ttl) then return inside_reply(owner) end
  tail = last()
  if not tail[1] then
    token, detail = admit(owner, ttl, param, waited)
    if token then return {1, token, detail} end
  end
  ms = remaining()
end
if detail then return {-1, detail} end -- the reason
local kind = tail[1] and string.match(tail[1], '^%u(%l+)')
if kind and kind ~= KIND and kind ~= YIELD then return {-1, 'kind\t' .. kind} end
if line_full() then
  -- Many callers may be refused, and each count looks at all waiters: it would cost more than waiting.
  if found_full() then return {-1, full} end
  if count_living() >= most then
    keep_word(full, math.floor(now() / 1000), FULL_MS)
    return {-1, full}
  end
  if spent >= BUDGET then return busy() end
end

-- ask_keeper tells the client of the occupant that the caller is first in line, as ask.lua does, if that
-- client may only keep the latch. It returns false if it does not know where that client listens.
local function ask_keeper(occupant)
  local me, keeper = string.match(owner, '^rl%-(%w+)%-'), string.match(occupant, '^rl%-(%w+)%-.*~$')
  if KIND ~= 'mutex' or not me or not keeper or me == keeper or string.find(ticket, '^[ST]') then return false end
  redis.pcall('PUBLISH', string.gsub(address, '^(.*)' .. me, '%1' .. keeper), 'asked\t0\t' .. occupant)
  return true
end

-- The score is the arrival in microseconds, made unique: equal scores would be ordered by the text
-- of the ticket.
local arrival, first, fence = tonumber(ARGV[8]), not tail[1], nil
if ticket ~= '' then
  if arrival == 0 then arrival = tail[2] and math.max(now(), tonumber(tail[2]) + 1) or now() end
  if redis.call('ZADD', QUEUE, 'NX', arrival, ticket) == 0 then arrival = redis.call('ZSCORE', QUEUE, ticket) end
  -- A user that may not run PEXPIRE must not leave a line for ever. It comes after ZADD, which a server
  -- that is out of memory is to refuse.
  local kept = first and redis.pcall('PEXPIRE', QUEUE, LINE_TTL)
  if type(kept) == 'table' then
    redis.call('ZREM', QUEUE, ticket)
    return kept
  end
  -- If all waits are shorter than a heartbeat, no await ever comes: so newcomers keep the line,
  -- too.
  if not mark_alive(address, ARGV[7]) and (first or redis.call('PTTL', QUEUE) < LINE_TTL / 2) then keep_line() end
  if not first then
    local line = redis.call('ZRANGE', QUEUE, 0, 1)
    first = line[1] == ticket or line[2] == ticket and string.match(line[1], '^%u(%l+)') == YIELD
  end
  fence = redis.call('GET', FENCE)
end
if yielding and ms == -2 then ms = yielding end
local other = first and foreign() and 1 or 0 -- before occupant, which tells what foreign has met
local rank = not first and 0 or ticket ~= '' and ask_keeper(occupant()) and 2 or 1
return {0, ms, other, arrival, rank, occupant(), tonumber(fence or 0)}
