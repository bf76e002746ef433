-- Zset: what the kinds share that keep a sorted set.
--
-- State  K: a sorted set. First, at a negative score, the mark: the kind, a tab and its parameter. Then the owners, each at the server's
--        time in ms at which its place is free again: the end of its lease, or later where a place rests after its holder vanished or
--        left it shut.
--        INSIDE: a hash, owner to token, ms of rest and got, separated by tabs.
--        Both expire when the last place is free, or live on while somebody waits after a resize.

local K, INSIDE = KEYS[1], KEYS[5]
local together = {K, INSIDE} -- keys that begin and end together
local MANY = 1000 -- places that one script clears at most, so that it stays short

local function millis()
  return math.floor(now() / 1000)
end

-- mark is the kind that K is used for and its parameter; nothing if K is not in use.
local function mark()
  local text = redis.call('ZRANGE', K, 0, 0)[1]
  if not text then return nil end
  local kind, parameter = string.match(text, '^(%l+)\t(.*)$')
  return kind or 'sorted set', parameter
end

-- begin makes K anew, for nobody.
local function begin(kind, parameter)
  redis.call('DEL', unpack(together))
  redis.call('ZADD', K, -1, kind .. '\t' .. parameter)
end

-- remark changes the parameter. The new mark comes before the old one goes: a key that was empty in between would lose its TTL.
local function remark(kind, old, new)
  if old == new then return end
  redis.call('ZADD', K, redis.call('ZSCORE', K, kind .. '\t' .. old), kind .. '\t' .. new)
  redis.call('ZREM', K, kind .. '\t' .. old)
end

-- outlive lets K last for another ms at least, and the other keys as long. It is tempting to return where K lasts long enough. But
-- INSIDE vanishes with the last owner and comes back without a TTL while K lives on.
local function outlive(ms)
  ms = math.max(ms, redis.call('PTTL', K))
  for _, key in ipairs(together) do redis.call('PEXPIRE', key, ms) end
end

-- place puts an owner inside and returns its token.
local function place(owner, ttl, got, rest)
  local token = mint()
  redis.call('ZADD', K, millis() + ttl + rest, owner)
  redis.call('HSET', INSIDE, owner, string.format('%.0f\t%d\t%s', token, rest, got))
  outlive(ttl + rest)
  return token
end

-- record is the token, the rest and what else an owner got.
local function record(owner)
  local token, rest, got = string.match(redis.call('HGET', INSIDE, owner) or '', '^(%d+)\t(%d+)\t(.*)$')
  return tonumber(token), tonumber(rest), got
end

-- find is the record of an owner whose lease has not ended; nothing otherwise.
local function find(owner)
  local free = redis.call('ZSCORE', K, owner)
  if not free then return nil end
  local token, rest, got = record(owner)
  if not token or free - rest <= millis() then return nil end
  return token, rest, got
end

-- tidy forgets everything if no place is taken.
local function tidy()
  if redis.call('ZCOUNT', K, millis() + 1, '+inf') == 0 then redis.call('DEL', unpack(together)) end
end

-- drop clears the place of an owner. While somebody waits the mark stays: who is next must not bring back a size of before.
local function drop(owner)
  redis.call('ZREM', K, owner)
  redis.call('HDEL', INSIDE, owner)
  if redis.call('EXISTS', QUEUE) == 0 then tidy() end
end

-- sweep clears the places whose time is over, and tells of each.
local function sweep(cleared)
  for _, owner in ipairs(redis.call('ZRANGEBYSCORE', K, 0, millis(), 'LIMIT', 0, MANY)) do
    local _, _, got = record(owner)
    redis.call('ZREM', K, owner)
    redis.call('HDEL', INSIDE, owner)
    if cleared then cleared(got) end
  end
end

local function leave(owner)
  if not find(owner) then return false end
  drop(owner)
  return 0
end

local function extend(owner, ttl)
  local token, rest = find(owner)
  if not token then return false end
  outlive(ttl + rest) -- first: a server that is out of memory refuses a script whose first write could need some
  redis.call('ZADD', K, millis() + ttl + rest, owner)
  return true
end

-- cold
-- shut ends the lease of an owner, and leaves its place at rest. K ends with the last place, unless a waiter may still need the mark.
local function shut(owner, ms)
  local token, _, got = find(owner)
  if not token then return false end
  outlive(ms) -- first: a server that is out of memory refuses a script whose first write could need some
  redis.call('ZADD', K, millis() + ms, owner)
  redis.call('HSET', INSIDE, owner, string.format('%.0f\t%d\t%s', token, ms, got))
  if redis.call('EXISTS', QUEUE) == 0 then
    local last = redis.call('ZRANGE', K, -1, -1, 'WITHSCORES')[2] - millis()
    for _, key in ipairs(together) do redis.call('PEXPIRE', key, last) end
  end
  return 0
end

-- open ends the rest of a place; the next admission clears it.
local function open(owner)
  local free = redis.call('ZSCORE', K, owner)
  if not free or tonumber(free) <= millis() or find(owner) then return false end
  redis.call('ZADD', K, millis(), owner)
  return 0
end

local function stamp(owner, token)
  local _, rest, got = record(owner)
  if rest then redis.call('HSET', INSIDE, owner, string.format('%.0f\t%d\t%s', token, rest, got)) end
end

-- The successor comes in before the owner goes: a key that was empty in between would lose its TTL.
local function rename(owner, successor)
  redis.call('ZADD', K, redis.call('ZSCORE', K, owner), successor)
  redis.call('HSET', INSIDE, successor, redis.call('HGET', INSIDE, owner))
  redis.call('ZREM', K, owner)
  redis.call('HDEL', INSIDE, owner)
end

local function pass(owner)
  local token, _, got = record(owner)
  return token, got
end

local function remaining()
  local first = redis.call('ZRANGEBYSCORE', K, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  return first[2] and math.max(0, first[2] - millis()) or -2
end

local function foreign()
  return false
end

local function holders()
  local all, found = redis.call('ZRANGEBYSCORE', K, 0, '+inf', 'WITHSCORES'), {}
  for i = 1, #all, 2 do
    local token, rest, got = record(all[i])
    local free = all[i + 1] - millis()
    local left = free - (rest or free)
    if free > 0 then
      found[#found + 1] = {all[i], left > 0 and left or free, string.format('%.0f', token or 0), got or '', left > 0 and 0 or 1}
    end
  end
  return found
end
