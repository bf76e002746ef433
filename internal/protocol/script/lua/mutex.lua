-- Kind mutex: one holder at a time.
--
-- State  K: a string, the owner; its expiry is the lease. SET key owner NX PX writes the same, so a
--        mutex and any client of that form exclude each other. Shut: the owner, a tab and "shut".
-- Param  how many tokens the acquisition takes: one for itself, and one for each goroutine of its
--        client that the mutex may be handed to; '' for one
--
-- Every kind answers these questions about the latch whose keys are KEYS:
--
--   ROOMY
--     Whether there may be room while tickets are in line, for an acquisition that wants less.
--   admit(owner, ttl, param, waited)
--     Lets the owner in for ttl ms if there is room. Returns its token, its detail ('' for a mutex)
--     and whether there may be room for one more. Returns false if there is no room, or if the
--     owner is inside already. Returns false and a reason, in place of the detail, if waiting
--     cannot help. waited: the owner comes out of the line, or had a place in it; 'inside' if it
--     had one inside (mend).
--   join(owner, ttl, param, waited)
--     Lets the owner in past the line if it belongs to an owner inside. Returns as admit.
--   leave(owner, begun)
--     Takes the owner out. Returns how many holds it has left, or false if it was not inside, nor, of
--     a job, the last one to be, nor has a slot at rest.
--     begun: 1 if its program had the lease; '' if the acquisition is undone; nil if the lease is
--     taken by force. Only the kinds job and slotpool ask.
--   shut(owner, ms)
--     Takes the owner out and keeps its place shut for ms. Returns as leave.
--   open(owner)
--     Ends the time for which the owner left its place shut, or takes the latch from one of another
--     library that leave does not know. Returns false if it did neither.
--   extend(owner, ttl, exactly)
--     Gives the lease of the owner ttl ms, if it has less: a request that is late must not shorten
--     a lease that a later one made longer. exactly: also if it has more. Returns whether the owner
--     is inside, which is all that it does with a ttl of 0.
--   rename(owner, successor)
--     Gives the place of an owner inside to its successor.
--   granted(owner)
--     Returns the token and the detail of an owner inside.
--   set_token(owner, token)
--     Makes this the token of an owner inside; only in a quorum.
--   remaining()
--     Returns the ms until a lease expires: -1 never, -2 there is none, 0 it has expired.
--   occupant()
--     Returns an owner inside, or one that left the latch shut, as far as the questions before have
--     met one; else ''.
--   foreign()
--     Returns whether the holder is of another library, and so will not hand over.
--   stay(ms)
--     Keeps what is kept beyond the last lease for ms from now on: tickets are in line.
--   tidy()
--     Forgets what is kept beyond the last lease for tickets in line: the line is empty now.
--   holders(most)
--     Returns {owner, ms left, token, detail, resting} of every owner inside; of most of them if
--     there are many and most is given. resting: 1 if it is not inside any more, and its place is
--     kept free.

local K = KEYS[1]

local function admit(owner, ttl, param)
  if not redis.call('SET', K, owner, 'NX', 'PX', ttl) then return false end
  return mint(tonumber(param)), '', false
end

local function leave(owner)
  if redis.call('GET', K) ~= owner then return false end
  redis.call('DEL', K)
  return 0
end

local met -- the owner that extend or foreign found inside
local function extend(owner, ttl, exactly)
  met = redis.call('GET', K)
  if met ~= owner then return false end
  if exactly or tonumber(ttl) > 0 and redis.call('PTTL', K) < tonumber(ttl) then redis.call('PEXPIRE', K, ttl) end
  return true
end

-- cold
local KIND = 'mutex'
local ROOMY = false
local SHUT = '\tshut'

local function shut(owner, ms)
  if redis.call('GET', K) ~= owner then return false end
  -- PEXPIRE comes first: a server that is out of memory refuses a script whose first write could
  -- need some.
  redis.call('PEXPIRE', K, ms)
  redis.call('SET', K, owner .. SHUT, 'PX', ms)
  return 0
end

local function open(owner)
  if redis.call('GET', K) ~= owner .. SHUT then return false end
  redis.call('DEL', K)
  return 0
end

local function stay()
end

local function tidy()
end

local function set_token()
end

local function rename(_, successor)
  redis.call('SET', K, successor, 'PX', redis.call('PTTL', K))
end

local function join()
  return false
end

-- The last of its tokens: a client that is told again that its owner is inside hands nothing over.
local function granted()
  return tonumber(redis.call('GET', FENCE)), ''
end

local function remaining()
  return redis.call('PTTL', K)
end

local function foreign()
  met = redis.call('GET', K)
  return met and string.sub(met, 1, 3) ~= 'rl-'
end

local function occupant()
  return met or ''
end

local function holders()
  local owner = redis.call('GET', K)
  if not owner then return {} end
  local gone = string.match(owner, '^(.*)' .. SHUT .. '$')
  return {{gone or owner, remaining(), redis.call('GET', FENCE) or '', '', gone and 1 or 0}}
end
