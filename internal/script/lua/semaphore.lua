-- Kind semaphore: n permits, of which each holder has some.
--
-- State  as in zset.lua; the parameter is n, and the score of the mark is -1 less the permits taken
-- Arg    permits wanted, colon, n as the caller knows it
-- Got    permits

local function taken(size)
  return -1 - redis.call('ZSCORE', K, 'semaphore\t' .. size)
end

local function give(size, permits)
  redis.call('ZINCRBY', K, permits, 'semaphore\t' .. size)
end

local function admit(owner, ttl, arg, waited)
  local kind, size = mark()
  if kind and kind ~= 'semaphore' then return false, 'kind\t' .. kind end
  local permits, wanted = string.match(arg, '^(%d+):(%d+)$')
  if size and size ~= wanted and not waited then return false, 'size\t' .. size end
  permits, wanted = tonumber(permits), size or wanted
  if permits > tonumber(wanted) then return false, 'size\t' .. wanted end
  if kind then
    sweep(function(got) give(size, got) end)
    if redis.call('ZSCORE', K, owner) then return false end
  else
    begin('semaphore', wanted)
  end
  local free = wanted - taken(wanted) - permits
  if free < 0 then return false end
  give(wanted, -permits)
  return place(owner, ttl, permits, 0), tostring(permits), free > 0
end

local function leave(owner)
  local token, _, permits = find(owner)
  if not token then return false end
  local _, size = mark()
  redis.call('ZREM', K, owner) -- first: a server that is out of memory refuses a script whose first write could need some
  give(size, permits)
  drop(owner)
  return 0
end

-- cold
local KIND = 'semaphore'
local ROOMY = true -- who is next may want more permits than are left

-- join lets nobody past the line, and nobody into it who knows another size.
local function join(_, _, arg)
  local _, size = mark()
  return false, size and size ~= string.match(arg, '^%d+:(%d+)$') and 'size\t' .. size or nil
end

local function resize(size)
  local kind, old = mark()
  if kind == 'semaphore' then remark(kind, old, size) end
  return kind or '', old or ''
end
