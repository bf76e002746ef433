-- Tickets: what line.lua and quorum_line.lua share about the line of waiters.
--
-- A ticket is one waiter: mode and kind, address, ttl, arg and owner, separated by tabs. The address is the channel on which its client
-- listens. In mode H the client must listen here: a ticket whose address has no subscriber is that of a client that is dead or cut off.
-- Mode A is for a client that listens at another node of a cluster, or cannot listen and asks instead. S and T are H and A for a sharded
-- channel.

-- cold
local LINGER = 3600000 -- ms that a line stays without a heartbeat or a new ticket
local BUDGET = 10000 -- how much one script does to a line, so that it stays short: 1 for a ticket dropped, 10 for one granted
local spent = 0

local function parse(ticket)
  return string.match(ticket, '^(%u)(%l+)\t([^\t]*)\t(%d+)\t([^\t]*)\t(.*)$')
end

-- keep lets the line outlive this moment for another LINGER ms.
local function keep()
  redis.call('PEXPIRE', QUEUE, LINGER)
  redis.call('PEXPIRE', CLIENTS, LINGER)
end

-- believe notes that a waiting client is alive for another horizon ms, and returns whether the client is new here. A new client clears away
-- the dead, so there are never more than came within one horizon; and it lets the line outlive this moment, since CLIENTS may be new, too.
local function believe(address, horizon)
  local ms = math.floor(now() / 1000)
  if redis.call('ZADD', CLIENTS, ms + horizon, address) == 0 then return false end
  redis.call('ZREMRANGEBYSCORE', CLIENTS, '-inf', ms)
  keep()
  return true
end

-- heard reports whether a client listens to its address. PUBLISH would not do: it counts listeners to patterns, too, and a tool that
-- listens to everything would make every dead client seem alive. A client is taken to listen where the caller may not ask.
local function heard(mode, address)
  if mode == 'A' or mode == 'T' then return true end
  local reply = redis.pcall('PUBSUB', mode == 'S' and 'SHARDNUMSUB' or 'NUMSUB', address)
  return reply.err ~= nil or tonumber(reply[2]) > 0
end

-- alive returns for how many ms more the client of a ticket is believed alive, at most 0 if it is dead. The caller is alive: it asks.
local known = {}
local function alive(ticket, caller)
  local mode, address = string.match(ticket, '^(%u)%l+\t([^\t]*)\t')
  if not mode then return 0 end
  local ms = known[mode .. address]
  if not ms then
    ms = tonumber(redis.call('ZSCORE', CLIENTS, address) or 0) - math.floor(now() / 1000)
    if ms > 0 and address ~= caller and not heard(mode, address) then ms = 0 end
    known[mode .. address] = ms
  end
  return ms
end

-- head returns the first ticket of a living client, for how many ms more that is believed alive, the ticket behind it, and whether tickets
-- of dead clients were dropped before it. Where so many are dead that the budget is spent, it returns nil and true. A dead client misses its
-- tickets at its next await, if it is only cut off, and asks for its place again.
local function head(caller)
  local size, dropped = 2, false
  while true do
    local line, dead = redis.call('ZRANGE', QUEUE, 0, size - 1), 0
    if not line[1] then
      redis.call('DEL', CLIENTS)
      return nil
    end
    while line[dead + 1] and alive(line[dead + 1], caller) <= 0 do dead = dead + 1 end
    if dead == 0 then return line[1], alive(line[1], caller), line[2], dropped end
    redis.call('ZREMRANGEBYRANK', QUEUE, 0, dead - 1)
    spent, dropped, size = spent + dead, true, 1000
    if spent >= BUDGET then return nil, true end
  end
end
