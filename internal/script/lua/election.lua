-- Kind election: one leader at a time, with a value that it is known by. Whoever observes is told of each change.
--
-- KEYS   also changes, a channel
-- State  as in zset.lua; no parameter
-- Arg    the value of the candidate
-- Got    the value of the leader

local CHANGES = KEYS[6]

local function tell(change)
  redis.pcall('PUBLISH', CHANGES, change)
end

local function admit(owner, ttl, arg)
  local kind = mark()
  if kind and kind ~= 'election' then return false, 'kind\t' .. kind end
  if kind then sweep() end
  if redis.call('ZCARD', K) > 1 then return false end
  begin('election', '')
  local token = place(owner, ttl, arg, 0)
  tell('elected')
  return token, arg, false
end

local function leave(owner)
  if not find(owner) then return false end
  drop(owner)
  tell('resigned')
  return 0
end

-- cold
local KIND = 'election'
local ROOMY = false

local vacate = shut
local function shut(owner, ms)
  local left = vacate(owner, ms)
  if left then tell('resigned') end
  return left
end

local function join()
  return false
end

-- Observers are told: the leader is another process from now on.
local rename_hold = rename
local function rename(owner, successor)
  rename_hold(owner, successor)
  tell('elected')
end
