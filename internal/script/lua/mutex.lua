-- Kind mutex: one holder at a time.
--
-- State  K: a string, the owner; its expiry is the lease. This is what SET key owner NX PX writes, so any client of that form excludes
--        with a mutex, and the other way round. Shut: the owner, a tab and "shut".
--
-- Every kind answers these questions about the latch whose keys are KEYS:
--   ROOMY                           whether there may be room while somebody waits, namely for those who want less
--   admit(owner, ttl, arg, waited)  let the owner in for ttl ms if there is room. Its token, what else it got inside ('' for a mutex),
--                                   and whether there may be room for one more; or false, and the reason if waiting cannot help. The
--                                   owner may be inside already: then false. waited: it comes out of the line
--   leave(owner, result)            take the owner out; false if it was not inside, else how many holds it has left. result: how the
--                                   work ended, '' if it never began; only job asks
--   shut(owner, ms)                 take the owner out as leave does, and keep its place shut for ms
--   open(owner)                     end that time; false if the owner left nothing shut
--   extend(owner, ttl)              whether the owner is inside, now with ttl ms left
--   rename(owner, successor)        give the place of an owner that is inside to its successor
--   join(owner, ttl, arg)           let the owner in past the line if it belongs to one who is inside, as admit does; else false
--   pass(owner)                     the token and what else an owner got that is inside
--   remaining()                     ms until a lease runs out by itself: -1 never, -2 nobody is inside, 0 one has
--   foreign()                       whether the holder is not one of redlatch's, and so will not hand over
--   stamp(owner, token)             make this the token of an owner that is inside; only in a quorum
--   tidy()                          forget what is kept beyond the last lease for those in line: nobody is any more
--   holders()                       {owner, ms left, token, got, resting} of everybody inside; resting: gone, its place is kept free

local K = KEYS[1]

-- The argument is how many tokens it takes, for those to whom its client will pass it on; '' for one.
local function admit(owner, ttl, arg)
  if not redis.call('SET', K, owner, 'NX', 'PX', ttl) then return false end
  return mint(tonumber(arg)), '', false
end

local function leave(owner)
  if redis.call('GET', K) ~= owner then return false end
  redis.call('DEL', K)
  return 0
end

local function extend(owner, ttl)
  if redis.call('GET', K) ~= owner then return false end
  redis.call('PEXPIRE', K, ttl)
  return true
end

-- cold
local KIND = 'mutex'
local ROOMY = false
local SHUT = '\tshut'

local function shut(owner, ms)
  if redis.call('GET', K) ~= owner then return false end
  redis.call('PEXPIRE', K, ms) -- first: a server that is out of memory refuses a script whose first write could need some
  redis.call('SET', K, owner .. SHUT, 'PX', ms)
  return 0
end

local function open(owner)
  if redis.call('GET', K) ~= owner .. SHUT then return false end
  redis.call('DEL', K)
  return 0
end

local function tidy()
end

local function stamp()
end

local function rename(_, successor)
  redis.call('SET', K, successor, 'PX', redis.call('PTTL', K))
end

local function join()
  return false
end

-- The last of its numbers: whoever is told again that it is inside passes nothing on.
local function pass()
  return tonumber(redis.call('GET', FENCE)), ''
end

local function remaining()
  return redis.call('PTTL', K)
end

local function foreign()
  local owner = redis.call('GET', K)
  return owner and string.sub(owner, 1, 3) ~= 'rl-'
end

local function holders()
  local owner = redis.call('GET', K)
  if not owner then return {} end
  local gone = string.match(owner, '^(.*)' .. SHUT .. '$')
  return {{gone or owner, remaining(), redis.call('GET', FENCE) or '', '', gone and 1 or 0}}
end
