-- Who waits for a quorum. It takes the place of line.lua: a node cannot grant what only a majority can give. So it tells the first in line
-- that it is worth trying, and nobody depends on it.

-- cold
local LINGER = 3600000 -- ms that a line stays which nobody comes back to

-- inside is the answer to an owner that turned out to be inside already: the number it has.
local function inside(owner)
  local number, got = pass(owner)
  return {1, number or mint(), got}
end

-- agrees reports whether an owner has the slot that a majority gave it. If it has another, it leaves: that one does not count for it.
local function agrees(owner, got)
  if KIND ~= 'slotpool' then return true end
  local _, slot = pass(owner)
  if slot == got then return true end
  leave(owner, '')
  return false
end

-- believe notes that a waiting client is alive for another horizon ms.
local function believe(address, horizon)
  redis.call('ZADD', CLIENTS, math.floor(now() / 1000) + horizon, address)
end

-- keep lets the line outlive this moment: without a sign of life it is gone after LINGER.
local function keep()
  redis.call('PEXPIRE', QUEUE, LINGER)
  redis.call('PEXPIRE', CLIENTS, LINGER)
end

-- head is the address and the waiter of the first in line whose client is alive. It drops the dead before it.
local function head()
  while true do
    local ticket = redis.call('ZRANGE', QUEUE, 0, 0)[1]
    if not ticket then
      redis.call('DEL', CLIENTS)
      return nil
    end
    local address, waiter = string.match(ticket, '^%u%l+\t([^\t]*)\t%d+\t[^\t]*\t(.*)$')
    if address and tonumber(redis.call('ZSCORE', CLIENTS, address) or 0) * 1000 > now() then return address, waiter end
    redis.call('ZREM', QUEUE, ticket)
  end
end

-- grant tells the first in line. It stays there until it is inside, or says that it left.
local function grant()
  local address, waiter = head()
  if not address then return tidy() end
  redis.pcall('PUBLISH', address, 'free\t' .. waiter)
end
