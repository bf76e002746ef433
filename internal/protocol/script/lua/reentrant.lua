-- Kind reentrant: one owner, which may enter again. Each entry is a lease of its own, named by its
-- entry. So an entry that is resent counts once, and an entry that died is not counted for ever.
--
-- KEYS   also inside
-- State  K: a hash, the owner to the number of its entries, for other programs to read with HGET;
--        its expiry is that of the entry that ends last.
--        INSIDE: a hash, each entry to the server's time in ms at which its lease ends, a tab and
--        its owner. It counts only while that owner is in K: another library may have deleted K, and
--        have it for an owner of its own by now.
--        Shut: in K a field that is no owner, and in INSIDE the last entry, a tab and "shut".
-- Param  bound on the depth (0 for none), colon, owner
-- Detail depth

local K, INSIDE = KEYS[1], KEYS[5]

local function millis()
  return math.floor(now() / 1000)
end

-- extend_entry lets an entry of an owner last for ttl ms. K lasts until the later of its two ends,
-- never for their sum. PEXPIRE comes first: a server that is out of memory refuses a script whose
-- first write could need some.
local function extend_entry(entry, owner, ttl)
  local ms = math.max(ttl, redis.call('PTTL', K))
  redis.call('PEXPIRE', K, ms)
  -- The owner's next entry has the same token. The expiry of another library's key stays as it is.
  local left = redis.call('PTTL', FENCE)
  if left >= 0 and left < ms and FENCE == string.sub(QUEUE, 1, -6) .. 'fence' then redis.call('PEXPIRE', FENCE, ms) end
  redis.call('HSET', INSIDE, entry, millis() + ttl .. '\t' .. owner)
  redis.call('PEXPIRE', INSIDE, ms)
end

-- lasts returns for how many ms more what INSIDE has of an entry lasts, at most 0 if it has ended,
-- and its owner.
local function lasts(value)
  local ends, owner = string.match(value or '', '^(%d+)\t(.*)$')
  return tonumber(ends or 0) - millis(), owner
end

-- held returns for how many ms more the lease of an entry lasts, and its owner, or nil if it has
-- ended.
local function held(entry)
  local left, owner = lasts(redis.call('HGET', INSIDE, entry))
  if left > 0 and redis.call('HEXISTS', K, owner) == 1 then return left, owner end
end

local counted = {} -- owners to their entries, so that join reads those of many that wait once

-- count returns the number of entries of the owner in K whose lease has not ended, and for how many
-- ms more the last of them lasts, both without the entry that is given, if any. It removes those that
-- have ended. It reads all entries.
local function count(owner, but)
  local all, n, last = redis.call('HGETALL', INSIDE), 0, 0
  for i = 1, #all, 2 do
    local left, of = lasts(all[i + 1])
    if left <= 0 or of ~= owner then
      redis.call('HDEL', INSIDE, all[i])
    elseif all[i] ~= but then
      n, last = n + 1, math.max(last, left)
    end
  end
  return n, last
end

-- shorten lets K end in ms, with the last entry, when an entry that was to end in before ms is gone
-- or ends sooner. Else the owner would keep all others out after its last entry died.
local function shorten(before, ms)
  if before <= ms then return end
  redis.call('PEXPIRE', K, ms)
  redis.call('PEXPIRE', INSIDE, ms)
end

-- not_a_lock returns a reason to refuse an acquisition if K is a hash that is no lock: it has more
-- than a field with a count, or no expiry.
local function not_a_lock()
  if redis.call('EXISTS', INSIDE) == 1 or redis.call('EXISTS', K) == 0 then return nil end
  local counts = redis.call('HVALS', K)
  if #counts == 1 and string.match(counts[1], '^%d+$') and redis.call('PTTL', K) >= 0 then return nil end
  return 'kind\thash'
end

-- An entry that is inside already does not join. An entry that was inside and has ended does: it
-- was resent, and its owner still holds.
local function join(entry, ttl, param)
  local most, owner = string.match(param, '^(%d+):(.*)$')
  if redis.call('HEXISTS', K, owner) == 0 or held(entry) then return false, not_a_lock() end
  local n = counted[owner] or count(owner)
  if n == 0 then return false, not_a_lock() end -- the lock of another library
  if n >= tonumber(most) and most ~= '0' then return false, 'depth\t' .. most end
  local token = tonumber(redis.call('GET', FENCE)) or mint() -- before it is kept as long as the entry
  extend_entry(entry, owner, ttl)
  counted[owner] = n + 1
  redis.call('HSET', K, owner, n + 1)
  return token, tostring(n + 1), true
end

local function admit(entry, ttl, param)
  if redis.call('HLEN', K) > 0 then return join(entry, ttl, param) end
  redis.call('DEL', INSIDE)
  local owner = string.match(param, ':(.*)$')
  redis.call('HSET', K, owner, 1)
  local done, token = pcall(function()
    local token = mint()
    extend_entry(entry, owner, ttl) -- which keeps the token as long as the entry
    return token
  end)
  if not done then -- else K would stay for ever, for want of a right to let it expire
    redis.call('DEL', K, INSIDE)
    if type(token) == 'string' and redis.REDIS_VERSION_NUM then token = redis.error_reply(token) end -- keeps its code
    error(token, 0)
  end
  return token, '1', true
end

-- leave deletes both keys in one command. If the last entry went out of INSIDE before, INSIDE would be
-- gone, and a script that wants it back ends there while its slot moves to another node: K would stay.
local function leave(entry)
  local left, owner = held(entry)
  if not left then return false end
  local n, last = count(owner, entry)
  counted[owner] = nil
  if n == 0 then
    redis.call('DEL', K, INSIDE)
    return 0
  end
  redis.call('HDEL', INSIDE, entry)
  redis.call('HSET', K, owner, n)
  shorten(left, last)
  return n
end

local function extend(entry, ttl, exactly)
  local left, owner = held(entry)
  if not left then return false end
  extend_entry(entry, owner, exactly and ttl or math.max(ttl, left))
  if exactly and ttl < left then
    local _, last = count(owner)
    shorten(left, last)
  end
  return true
end

-- cold
local KIND = 'reentrant'
local ROOMY = false
local SHUT = '\tshut'

-- An entry that is not the last one shuts nothing.
local function shut(entry, ms)
  local left, owner = held(entry)
  if not left then return false end
  if count(owner, entry) > 0 then return leave(entry) end
  -- Neither key is empty in between: it would lose its TTL, or not come back while its slot moves. PEXPIRE
  -- comes first, as above.
  redis.call('PEXPIRE', K, ms)
  redis.call('PEXPIRE', INSIDE, ms)
  redis.call('HSET', K, SHUT, 1)
  redis.call('HSET', INSIDE, entry .. SHUT, millis() + ms .. '\t' .. SHUT)
  redis.call('HDEL', K, owner)
  redis.call('HDEL', INSIDE, entry)
  return 0
end

-- An owner of another library has the lock without an entry. Force may take it.
local function open(entry)
  local other = redis.call('HEXISTS', K, entry) == 1 and count(entry) == 0 and not not_a_lock()
  if not other and not held(entry .. SHUT) then return false end
  redis.call('DEL', K, INSIDE)
  return 0
end

local function stay()
end

local function tidy()
end

-- The entry gets another name; the owner in K stays.
local function rename(entry, successor)
  redis.call('HSET', INSIDE, successor, redis.call('HGET', INSIDE, entry))
  redis.call('HDEL', INSIDE, entry)
end

local function granted()
  return tonumber(redis.call('GET', FENCE)), redis.call('HVALS', K)[1]
end

local function remaining()
  return redis.call('PTTL', K)
end

local function foreign()
  local owner = redis.call('HKEYS', K)[1]
  return owner and count(owner) == 0
end

-- An entry is not told: that would take another command.
local function occupant()
  return ''
end

local function holders()
  local owner, all, found = redis.call('HKEYS', K)[1], redis.call('HGETALL', INSIDE), {}
  if not owner then return found end
  for i = 1, #all, 2 do
    local left, of = lasts(all[i + 1])
    local gone = string.match(all[i], '^(.*)' .. SHUT .. '$')
    if left > 0 and of == owner then
      found[#found + 1] = {gone or all[i], left, redis.call('GET', FENCE) or '', gone and '' or owner, gone and 1 or 0}
    end
  end
  if #found == 0 then found[1] = {owner, remaining(), '', '', 0} end
  return found
end
