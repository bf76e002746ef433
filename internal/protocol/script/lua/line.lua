-- The line: what every kind shares about waiting and granting. See tickets.lua for the tickets in
-- it, and for head, the first that is alive. Their order is the score that acquire.lua gives.

-- cold
-- FORCED is a hash, in the scripts that are given it: last, the owner that lost the latch by force
-- last, and for each such owner, after "of ", when that was in us, a tab and what the client said
-- that took the latch.
local FORCED = KEYS[#KEYS]

-- inside_reply returns the reply to an owner that turned out to be inside already: the token it
-- has.
local function inside_reply(owner)
  local token, detail = granted(owner)
  return {1, token or mint(), detail}
end

-- agrees returns true: the only server gave the owner its detail. See quorum_line.lua for the nodes
-- of a quorum.
local function agrees()
  return true
end

-- knows returns true, and bind does nothing: see quorum_line.lua.
local function knows()
  return true
end

local function bind()
end

-- publish sends a message to the client of a ticket. It returns how many listeners heard it, or an
-- error.
local function publish(mode, address, message)
  if mode == 'S' or mode == 'T' then return redis.pcall('SPUBLISH', address, message) end
  return redis.pcall('PUBLISH', address, message)
end

-- notify_first tells the client of the waiter that is now the first in line to ask again in ms,
-- when a lease may expire. It publishes nothing if the client's own heartbeat comes sooner: that is
-- after a third of the waiter's TTL, or of the time for which the client is believed alive.
local function notify_first(ticket, ms, caller)
  local mode, _, address, ttl, _, owner = parse(ticket)
  if not mode or ms < 0 or ms >= ttl / 3 or address == caller or ms >= alive_for(ticket, caller) / 3 then return end
  publish(mode, address, 'first\t' .. ms .. '\t' .. owner)
end

-- yielding is for how many ms more the latch is left free for other libraries, if a ticket says so;
-- see yield in release.lua. The line stands behind that ticket.
local yielding

-- grant lets in the waiters that are next in line, and tells each client. Whether there is room for
-- one more is the third result of admit; BUDGET in tickets.lua bounds the work of one script. It drops
-- the tickets of dead clients. It drops those of waiters that can never be let in, too, and tells
-- their clients to ask at once, and so they learn why. The caller learns of its own grants by the
-- reply, so it need not listen. If the caller may not publish, grants stand all the same, and await
-- finds them.
--
-- A lease that is granted here is never longer than its client is believed alive, so a client that
-- died in silence costs no more.
--
-- grant returns true if the budget is spent and waiters are left that it has not looked at.
--
-- The token of a new holder is made by admit of its kind, with mint (token.lua).
--
-- An example: reader R1 is inside; writer W, killed a moment ago, and reader R2 wait; R1 releases,
-- or R3 arrives. W's address has no listener, so its ticket is dropped; R2 is admitted and told;
-- and so on until the line is empty or a living waiter must go on waiting.
local function grant(caller, moved)
  while true do
    local ticket, ms, behind, dropped = head(caller)
    if not ticket then
      if not ms then tidy() end
      return ms
    end
    moved = moved or dropped
    local mode, kind, address, ttl, param, owner = parse(ticket)
    if kind ~= KIND then -- one script cannot let in waiters for another kind
      yielding = kind == YIELD and ms or nil
      if yielding and moved and behind then notify_first(behind, ms, caller) end
      return false
    end
    local token, detail, room = admit(owner, math.min(tonumber(ttl), ms), param, true)
    if not token and not detail then
      if moved then notify_first(ticket, foreign() and 0 or remaining(), caller) end
      return false
    end
    if token then
      local hearers = publish(mode, address, 'grant\t' .. string.format('%.0f', token) .. '\t' .. detail .. '\t' .. owner)
      if hearers == 0 and (mode == 'H' or mode == 'S') and address ~= caller then
        leave(owner, '')
        room = true
      end
    end
    redis.call('ZREM', QUEUE, ticket)
    if not token then notify_first(ticket, 0, '') end
    moved, spent = true, spent + 10
    if behind and token and not room then
      notify_first(behind, remaining(), caller)
      return false
    end
    if behind and spent >= BUDGET then
      notify_first(behind, 0, caller)
      return true
    end
  end
end

-- tell_first tells the first in line when to ask, since the lease inside may end sooner than its
-- client knows.
local function tell_first()
  if redis.call('EXISTS', QUEUE) == 0 then return end
  local first, unfinished = head('')
  if first then
    notify_first(first, foreign() and 0 or remaining(), '')
  elseif not unfinished then
    tidy()
  end
end

-- grant_or_wake lets in the next in line, for a caller that does not know in which key the lock
-- counts its tokens: a reentrant lock may count them in a key of another library. There the first
-- in line is told to ask at once, and its await grants.
local function grant_or_wake()
  if KIND ~= 'reentrant' then return grant('') end
  local first = head('')
  if first then notify_first(first, 0, '') end
end
