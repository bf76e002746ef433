-- The line on a node of a quorum. It takes the place of line.lua: a node cannot grant what only a
-- majority can give. So it tells the first in line that it is worth trying, and nothing depends on
-- that message. See tickets.lua for the tickets in line.

-- cold
local FORCED = KEYS[#KEYS - 1] -- as in line.lua

-- inside_reply returns the reply to an owner that turned out to be inside already: its number.
local function inside_reply(owner)
  local number, detail = granted(owner)
  return {1, number or mint(), detail}
end

-- agrees reports whether an owner has the slot that a majority gave it. If the owner has another
-- slot here, it leaves: this node does not count for it.
local function agrees(owner, detail)
  if KIND ~= 'slotpool' then return true end
  local _, slot = granted(owner)
  if slot == detail then return true end
  leave(owner, '')
  return false
end

-- knows reports whether this node knows all that it ever said about owners. One without the right to
-- vote may have forgotten that it gave a lease to another owner.
local function knows()
  return (votes())
end

-- bind notes that a lease binds this node for so many ms.
local function bind(ms)
  if tonumber(ms) > tonumber(redis.call('HGET', EPOCH, 'ttl') or 0) then redis.call('HSET', EPOCH, 'ttl', ms) end
end

-- grant tells the first in line. The ticket stays there until its owner is inside, or leaves.
local function grant()
  local ticket, spent_all = head('')
  if not ticket then
    if not spent_all then tidy() end
    return
  end
  local _, _, address, _, _, waiter = parse(ticket)
  redis.pcall('PUBLISH', address, 'free\t' .. waiter)
end

-- tell_first does nothing: a waiter would ask all nodes.
local function tell_first()
end

-- grant_or_wake does the same as grant.
local function grant_or_wake()
  grant()
end
