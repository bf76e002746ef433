-- Who waits for a quorum. It takes the place of line.lua: a node cannot grant what only a majority can give. So it tells the first in line
-- that it is worth trying, and nobody depends on it. See tickets.lua for the tickets in line.

-- cold
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

-- grant tells the first in line. It stays there until it is inside, or says that it left.
local function grant()
  local ticket, spent_all = head('')
  if not ticket then
    if not spent_all then tidy() end
    return
  end
  local _, _, address, _, _, waiter = parse(ticket)
  redis.pcall('PUBLISH', address, 'free\t' .. waiter)
end
