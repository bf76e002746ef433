-- Kind reentrant: one owner, who may enter again. Each entry is a lease of its own, named by its entry; so a resent entry counts once, and
-- an entry that died is not counted for ever.
--
-- KEYS   also inside
-- State  K: a hash, the owner to the number of its entries, for whoever reads it with HGET; its expiry is that of the last entry.
--        INSIDE: a hash, each entry to the server's time in ms at which its lease ends.
--        Shut: in K a field that is no owner, and INSIDE the last entry, a tab and "shut".
-- Arg    bound on the depth (0 for none), colon, owner
-- Got    depth

local K, INSIDE = KEYS[1], KEYS[5]

local function millis()
  return math.floor(now() / 1000)
end

-- hold lets an entry last for ttl ms, and K with it: the later of the two ends, never their sum. PEXPIRE comes first, since a server that
-- is out of memory refuses a script whose first write could need some.
local function hold(entry, ttl)
  local ms = math.max(ttl, redis.call('PTTL', K))
  redis.call('PEXPIRE', K, ms)
  redis.call('HSET', INSIDE, entry, millis() + ttl)
  redis.call('PEXPIRE', INSIDE, ms)
end

-- held is whether the lease of an entry has not ended.
local function held(entry)
  local ends = redis.call('HGET', INSIDE, entry)
  return ends and tonumber(ends) > millis() and redis.call('HLEN', K) > 0
end

-- count is the number of entries, without those whose lease has ended.
local function count()
  local all, n = redis.call('HGETALL', INSIDE), 0
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]) > millis() then n = n + 1 else redis.call('HDEL', INSIDE, all[i]) end
  end
  return n
end

-- alien returns a reason to refuse an acquisition if K is a hash that is no lock: not one field with a count, or without an end.
local function alien()
  if redis.call('EXISTS', INSIDE) == 1 or redis.call('EXISTS', K) == 0 then return nil end
  local counts = redis.call('HVALS', K)
  if #counts == 1 and string.match(counts[1], '^%d+$') and redis.call('PTTL', K) >= 0 then return nil end
  return 'kind\thash'
end

-- An entry that is inside already does not join. One that was inside and has ended does: it was resent, and its owner still holds.
local function join(entry, ttl, arg)
  local most, owner = string.match(arg, '^(%d+):(.*)$')
  if redis.call('HEXISTS', K, owner) == 0 or held(entry) then return false, alien() end
  local n = count()
  if n == 0 then return false, alien() end -- another library's
  if n >= tonumber(most) and most ~= '0' then return false, 'depth\t' .. most end
  hold(entry, ttl)
  redis.call('HSET', K, owner, n + 1)
  return tonumber(redis.call('GET', FENCE)) or mint(), tostring(n + 1), true
end

local function admit(entry, ttl, arg)
  if redis.call('HLEN', K) > 0 then return join(entry, ttl, arg) end
  redis.call('DEL', INSIDE)
  redis.call('HSET', K, string.match(arg, ':(.*)$'), 1)
  hold(entry, ttl)
  return mint(), '1', true
end

local function leave(entry)
  if not held(entry) then return false end
  redis.call('HDEL', INSIDE, entry)
  local n = count()
  if n == 0 then
    redis.call('DEL', K, INSIDE)
  else
    redis.call('HSET', K, redis.call('HKEYS', K)[1], n)
  end
  return n
end

local function extend(entry, ttl)
  if not held(entry) then return false end
  hold(entry, ttl)
  return true
end

-- cold
local KIND = 'reentrant'
local ROOMY = false
local SHUT = '\tshut'

-- An entry that is not the last one shuts nothing.
local function shut(entry, ms)
  if not held(entry) then return false end
  if count() > 1 then return leave(entry) end
  redis.call('DEL', K, INSIDE)
  redis.call('HSET', K, SHUT, 1)
  redis.call('HSET', INSIDE, entry .. SHUT, millis() + ms)
  redis.call('PEXPIRE', K, ms)
  redis.call('PEXPIRE', INSIDE, ms)
  return 0
end

local function open(entry)
  if redis.call('HEXISTS', INSIDE, entry .. SHUT) == 0 then return false end
  redis.call('DEL', K, INSIDE)
  return 0
end

local function tidy()
end

-- The entry gets another name; the owner in K stays.
local function rename(entry, successor)
  redis.call('HSET', INSIDE, successor, redis.call('HGET', INSIDE, entry))
  redis.call('HDEL', INSIDE, entry)
end

local function pass()
  return tonumber(redis.call('GET', FENCE)), redis.call('HVALS', K)[1]
end

local function remaining()
  return redis.call('PTTL', K)
end

local function foreign()
  return redis.call('HLEN', K) > 0 and redis.call('EXISTS', INSIDE) == 0
end

local function holders()
  local owner, all, found = redis.call('HKEYS', K)[1], redis.call('HGETALL', INSIDE), {}
  if not owner then return found end
  for i = 1, #all, 2 do
    local left = all[i + 1] - millis()
    local gone = string.match(all[i], '^(.*)' .. SHUT .. '$')
    if left > 0 then
      found[#found + 1] = {gone or all[i], left, redis.call('GET', FENCE) or '', gone and '' or owner, gone and 1 or 0}
    end
  end
  if #found == 0 then found[1] = {owner, remaining(), '', '', 0} end
  return found
end
