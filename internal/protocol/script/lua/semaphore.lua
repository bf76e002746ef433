-- Kind semaphore: n permits, of which each holder has some.
--
-- State  as in zset.lua; the attribute is n, and the score of the mark is -1 less the permits taken
-- Param  permits wanted (0 for all that are free, one at least), colon, n as the caller knows it
-- Detail permits

local function taken(size)
  return -1 - redis.call('ZSCORE', K, 'semaphore\t' .. size)
end

local function give(size, permits)
  redis.call('ZINCRBY', K, permits, 'semaphore\t' .. size)
end

local function admit(owner, ttl, param, waited)
  local kind, size = mark()
  if kind and kind ~= 'semaphore' then return false, 'kind\t' .. kind end
  local permits, wanted = string.match(param, '^(%d+):(%d+)$')
  if size and size ~= wanted and not waited then return false, 'size\t' .. size end
  permits, wanted = tonumber(permits), size or wanted
  if permits > tonumber(wanted) then return false, 'size\t' .. wanted end
  if kind then
    sweep(function(detail) give(size, detail) end, function(details)
      local sum = 0
      for _, n in ipairs(details) do sum = sum + n end
      redis.call('ZADD', K, -1 - sum, 'semaphore\t' .. size)
    end)
    if redis.call('ZSCORE', K, owner) then return false end
  else
    create('semaphore', wanted)
  end
  local free = wanted - taken(wanted)
  if permits == 0 then permits = math.max(free, 1) end
  free = free - permits
  if free < 0 then return false end
  give(wanted, -permits)
  undo = function()
    redis.call('ZREM', K, owner)
    give(wanted, permits)
    redis.pcall('HDEL', INSIDE, owner) -- last: it fails while the slot moves
  end
  return insert(owner, ttl, permits, 0), tostring(permits), free > 0
end
admit = whole(admit)

local function leave(owner)
  local token, _, permits = find(owner)
  if not token then return false end
  local _, size = mark()
  part(owner, function() give(size, permits) end)
  drop(owner)
  return 0
end

-- cold
local KIND = 'semaphore'
local ROOMY = true -- the next in line may want more permits than are left

-- join lets no owner past the line, and none into it that knows another size. One that had a place may
-- know another, unless it wants more permits than there are.
local function join(_, _, param, waited)
  local kind, size = mark()
  if kind and kind ~= 'semaphore' then return false, 'kind\t' .. kind end
  local permits, wanted = string.match(param, '^(%d+):(%d+)$')
  local refused = size and size ~= wanted and (not waited or tonumber(permits) > tonumber(size))
  return false, refused and 'size\t' .. size or nil
end

local function resize(size)
  local kind, old = mark()
  if kind == 'semaphore' then change_mark(kind, old, size) end
  return kind or '', old or ''
end
