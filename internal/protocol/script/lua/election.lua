-- Kind election: one leader at a time, with a value that it is known by. Observers are told of each
-- change.
--
-- KEYS   also changes, a channel
-- State  as in zset.lua; no attribute
-- Param  the value of the candidate
-- Detail the value of the leader

local CHANGES = KEYS[6]

local function publish_change(change)
  redis.pcall('PUBLISH', CHANGES, change)
end

local function admit(owner, ttl, param)
  local kind = mark()
  if kind and kind ~= 'election' then return false, 'kind\t' .. kind end
  if kind then sweep() end
  if redis.call('ZCARD', K) > 1 then return false end
  create('election', '')
  local token = insert(owner, ttl, param, 0)
  publish_change('elected')
  return token, param, false
end
admit = whole(admit)

local function leave(owner)
  if not find(owner) then return false end
  drop(owner)
  publish_change('resigned')
  return 0
end

-- cold
local KIND = 'election'
local ROOMY = false

local shut_hold = shut
local function shut(owner, ms)
  local left = shut_hold(owner, ms)
  if left then publish_change('resigned') end
  return left
end

local function join()
  return false
end

-- Observers are told: the leader is another process from now on.
local rename_hold = rename
local function rename(owner, successor)
  rename_hold(owner, successor)
  publish_change('elected')
end

-- Observers are told: a node of a quorum let the leader in with another number than that of the term.
local set_token_hold = set_token
local function set_token(owner, token)
  set_token_hold(owner, token)
  publish_change('elected')
end
