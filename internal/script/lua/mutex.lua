-- Kind mutex: one holder at a time.
--
-- State  K: a string, the owner; its expiry is the lease. This is what SET key owner NX PX writes, so any client of that form excludes
--        with a mutex, and the other way round.
--
-- Every kind answers these questions about the latch whose keys are KEYS:
--   admit(owner, ttl, arg)  let the owner in for ttl ms if there is room; what it got inside ('' for a mutex), or false, and whether
--                           there may be room for one more. The owner is not inside when this is asked.
--   leave(owner)            take the owner out; whether it was inside
--   extend(owner, ttl)      whether the owner is inside, now with ttl ms left
--   pass(owner)             the token and what else an owner got that is inside
--   remaining()             ms until a lease runs out by itself: -1 never, -2 nobody is inside
--   foreign()               whether the holder is not one of redlatch's, and so will not hand over
--   holders()               {owner, ms left} of everybody inside

local K = KEYS[1]

local function admit(owner, ttl)
  return redis.call('SET', K, owner, 'NX', 'PX', ttl) and '', false
end

local function leave(owner)
  if redis.call('GET', K) ~= owner then return false end
  redis.call('DEL', K)
  return true
end

local function extend(owner, ttl)
  if redis.call('GET', K) ~= owner then return false end
  redis.call('PEXPIRE', K, ttl)
  return true
end

-- cold
local function pass()
  return tonumber(redis.call('GET', KEYS[2])), ''
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
  return owner and {{owner, remaining()}} or {}
end
