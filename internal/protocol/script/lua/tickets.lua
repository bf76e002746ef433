-- Tickets: what line.lua and quorum_line.lua share about the line of waiters.
--
-- A ticket is one waiter: mode and kind, address, ttl, param and owner, separated by tabs. The
-- address is the channel on which its client listens. In mode H the client must listen here: a
-- ticket whose address has no subscriber is that of a client that is dead or cut off. Mode A is for
-- a client that listens at another node of a cluster, or cannot listen and polls instead. S and T
-- are H and A for a sharded channel.

-- cold
local LINE_TTL = 3600000 -- ms that a line stays without a heartbeat or a new ticket
-- BUDGET bounds what one script does to a line, so that it stays short: a ticket that is dropped
-- costs 1, one that is granted 10.
local BUDGET = 10000
local YIELD = 'yield' -- the kind of the ticket of no waiter, and its address; see yield in release.lua
local spent = 0

local function parse(ticket)
  return string.match(ticket, '^(%u)(%l+)\t([^\t]*)\t(%d+)\t([^\t]*)\t(.*)$')
end

-- keep_line keeps the keys of the line for another LINE_TTL ms. It returns whether a ticket is in
-- line.
local function keep_line()
  local there = redis.call('PEXPIRE', QUEUE, LINE_TTL) == 1
  redis.call('PEXPIRE', CLIENTS, LINE_TTL)
  return there
end

-- keep_word keeps a word of a holder in CLIENTS from now on, for so many ms. PEXPIRE comes first, and
-- again for a new key: a user that may not run it must not leave one for ever.
local function keep_word(word, now_ms, ms)
  local long = math.max(ms, redis.call('PTTL', CLIENTS))
  local there = redis.call('PEXPIRE', CLIENTS, long)
  redis.call('ZADD', CLIENTS, -(now_ms + ms), word)
  if there == 0 then redis.call('PEXPIRE', CLIENTS, long) end
end

-- tell_holders tells the clients of holders that have asked for it that a waiter has come. Their
-- wishes are among the members of CLIENTS whose time has passed; see want.lua.
local function tell_holders(past)
  for _, member in ipairs(past) do
    local address, owner = string.match(member, '^wanted\t([^\t]*)\t(.*)$')
    if address then redis.pcall('PUBLISH', address, 'wanted\t' .. owner) end
  end
end

-- mark_alive notes that a waiting client is alive for another live_for ms, which LiveFor in
-- engine/engine.go says. It returns whether the client is new here. A new client removes those that
-- are dead by now, so there are never more than came within that time; with them go the wishes of
-- holders to be told, which come true. It also keeps the line, since CLIENTS may be new, too.
local function mark_alive(address, live_for)
  local ms = math.floor(now() / 1000)
  if redis.call('ZADD', CLIENTS, ms + live_for, address) == 0 then return false end
  keep_line() -- before the script can end for want of a right
  local past = redis.call('ZRANGEBYSCORE', CLIENTS, '-inf', ms)
  if past[1] then
    redis.call('ZREMRANGEBYSCORE', CLIENTS, '-inf', ms)
    tell_holders(past)
  end
  return true
end

-- listens reports whether a client listens to its address. It does not ask PUBLISH, which counts
-- listeners to patterns, too: a tool that listens to everything would make every dead client seem
-- alive. If the caller may not ask PUBSUB, the client is taken to listen.
local function listens(mode, address)
  if mode == 'A' or mode == 'T' then return true end
  local reply = redis.pcall('PUBSUB', mode == 'S' and 'SHARDNUMSUB' or 'NUMSUB', address)
  return reply.err ~= nil or tonumber(reply[2]) > 0
end

-- alive_for returns for how many ms more the client of a ticket is believed alive, at most 0 if the
-- client is dead. The caller is alive, since it asks.
--
-- The ticket of yield is one of that many ms, so what has more left is from before the clock was set
-- back, and over: no waiter would be let in until the clock is there again.
local known = {}
local function alive_for(ticket, caller)
  local mode, address, ttl = string.match(ticket, '^(%u)%l+\t([^\t]*)\t(%d*)')
  if not mode then return 0 end
  local ms = known[mode .. address]
  if not ms then
    ms = tonumber(redis.call('ZSCORE', CLIENTS, address) or 0) - math.floor(now() / 1000)
    if address == YIELD and ms > tonumber(ttl) then ms = 0 end
    if ms > 0 and address ~= caller and not listens(mode, address) then ms = 0 end
    known[mode .. address] = ms
  end
  return ms
end

-- announce tells waiters of another library that the latch is free, if it is. Without the right to
-- publish, it does nothing.
local function announce(channel, message, sharded)
  if not channel or channel == '' or redis.call('EXISTS', KEYS[1]) == 1 then return end
  local heard = sharded == '1' and redis.pcall('SPUBLISH', channel, message)
  if type(heard) ~= 'number' then redis.pcall('PUBLISH', channel, message) end
end

-- head returns the first ticket of a living client, for how many ms more that client is believed
-- alive, the ticket behind it, and whether tickets of dead clients were dropped before it. If so
-- many are dead that the budget is spent, it returns nil and true. A client that was only cut off
-- misses its tickets at its next await, and asks for its places again.
local function head(caller)
  local size, dropped = 2, false
  while true do
    local line, dead = redis.call('ZRANGE', QUEUE, 0, size - 1), 0
    if not line[1] then
      -- What holders wish, and their answers, are no part of the line.
      redis.call('ZREMRANGEBYSCORE', CLIENTS, '(0', '+inf')
      local last = redis.call('ZRANGE', CLIENTS, 0, 0, 'WITHSCORES')[2]
      if last then redis.call('PEXPIRE', CLIENTS, math.max(1, -last - math.floor(now() / 1000))) end
      return nil
    end
    while line[dead + 1] and alive_for(line[dead + 1], caller) <= 0 do dead = dead + 1 end
    if dead == 0 then return line[1], alive_for(line[1], caller), line[2], dropped end
    redis.call('ZREMRANGEBYRANK', QUEUE, 0, dead - 1)
    spent, dropped, size = spent + dead, true, 1000
    if spent >= BUDGET then return nil, true end
  end
end
