-- The line: what every kind shares about waiting and granting. See tickets.lua for the tickets in it.

-- cold
-- inside is the answer to an owner that turned out to be inside already: the token it has.
local function inside(owner)
  local token, got = pass(owner)
  return {1, token or mint(), got}
end

-- agrees is true: what an owner has inside, the only server gave it. See quorum_line.lua for the nodes of a quorum.
local function agrees()
  return true
end

-- tell_of publishes a message to the client of a ticket, and returns how many hear it, or what went wrong.
local function tell_of(mode, address, message)
  if mode == 'S' or mode == 'T' then return redis.pcall('SPUBLISH', address, message) end
  return redis.pcall('PUBLISH', address, message)
end

-- promote tells the client of the waiter that is now the first in line to ask again in ms, when a lease inside may run out. Nothing is
-- said where the client's own heartbeat comes sooner: a third of the waiter's TTL, or of the time for which the client is believed alive.
local function promote(ticket, ms, caller)
  local mode, _, address, ttl, _, owner = parse(ticket)
  if not mode or ms < 0 or ms >= ttl / 3 or address == caller or ms >= alive(ticket, caller) / 3 then return end
  tell_of(mode, address, 'first\t' .. ms .. '\t' .. owner)
end

-- grant lets in the waiters that are next in line, as many as there is room for, and tells each client. It drops the tickets of dead
-- clients, and those of waiters that can never be let in, which their clients are told when they ask. The caller hears by the reply, so it
-- need not listen. Where the caller may not publish, grants stand as well, and are found by await.
-- A lease that is granted unasked is never longer than its client is believed alive, so a client that died in silence costs no more.
-- It returns true where the budget is spent and waiters are left that it did not look at.
--
-- An example: reader R1 is inside; writer W, killed a moment ago, and reader R2 wait; R1 releases, or R3 arrives. W's address has no
-- listener, so its ticket is dropped; R2 is admitted and told; and so on until the line is empty or a living waiter must go on waiting.
local function grant(caller, moved)
  while true do
    local ticket, ms, behind, dropped = head(caller)
    if not ticket then
      if not ms then tidy() end
      return ms
    end
    moved = moved or dropped
    local mode, kind, address, ttl, arg, owner = parse(ticket)
    if kind ~= KIND then return false end -- one script cannot let in waiters for another kind
    local token, got, room = admit(owner, math.min(tonumber(ttl), ms), arg, true)
    if not token and not got then
      if moved then promote(ticket, foreign() and 0 or remaining(), caller) end
      return false
    end
    if token then
      local hearers = tell_of(mode, address, 'grant\t' .. string.format('%.0f', token) .. '\t' .. got .. '\t' .. owner)
      if hearers == 0 and (mode == 'H' or mode == 'S') and address ~= caller then
        leave(owner, '')
        room = true
      end
    end
    redis.call('ZREM', QUEUE, ticket)
    moved, spent = true, spent + 10
    if behind and token and not room then
      promote(behind, remaining(), caller)
      return false
    end
    if behind and spent >= BUDGET then
      promote(behind, 0, caller)
      return true
    end
  end
end
