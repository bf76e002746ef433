-- Zset: what the kinds share that keep a sorted set.
--
-- State  K: a sorted set. First, at a negative score, the mark: the kind, a tab and its attribute.
--        Then the owners, each at the server's time in ms at which its place is free again: the end
--        of its lease, or later if the place rests after its holder vanished or left it shut.
--        INSIDE: a hash, owner to token, ms of rest and detail, separated by tabs.
--        Both expire when the last place is free, or with the line if tickets are in line.

local K, INSIDE = KEYS[1], KEYS[5]
local together = {K, INSIDE} -- keys that begin and end together
local MANY = 1000 -- places that one script clears at most, so that it stays short

local function millis()
  return math.floor(now() / 1000)
end

-- mark returns the kind that K is used for and its attribute, or nil if K is not in use.
local function mark()
  local text = redis.call('ZRANGE', K, 0, 0)[1]
  if not text then return nil end
  local kind, attribute = string.match(text, '^(%l+)\t(.*)$')
  return kind or 'sorted set', attribute
end

local made -- whether admit has made K anew
local undo -- gives back what admit has taken of a K that was there, if it has

-- fail ends the script with an error that was caught.
local function fail(reason)
  if type(reason) == 'string' and redis.REDIS_VERSION_NUM then reason = redis.error_reply(reason) end -- keeps its code
  error(reason, 0)
end

-- whole returns an admit that does all of it or nothing. A script ends where it comes to a command
-- that its user may not run, and what it has done stands: a size without its owner, for ever.
local function whole(admit)
  return function(...)
    made, undo = false, nil
    local done, token, detail, room = pcall(admit, ...)
    if done then return token, detail, room end
    if made then redis.call('DEL', unpack(together)) elseif undo then undo() end
    fail(token)
  end
end

-- create makes K anew, with no owner inside.
local function create(kind, attribute)
  made = true
  redis.call('DEL', unpack(together))
  redis.call('ZADD', K, -1, kind .. '\t' .. attribute)
end

-- change_mark changes the attribute. The new mark comes before the old one goes: a key that was
-- empty in between would lose its TTL.
local function change_mark(kind, old, new)
  if old == new then return end
  redis.call('ZADD', K, redis.call('ZSCORE', K, kind .. '\t' .. old), kind .. '\t' .. new)
  redis.call('ZREM', K, kind .. '\t' .. old)
end

-- keep_keys lets K last for another ms at least, and the other keys as long. It is tempting to
-- return if K lasts long enough. But INSIDE vanishes with the last owner and comes back without a
-- TTL while K lives on.
local function keep_keys(ms)
  ms = math.max(ms, redis.call('PTTL', K))
  for _, key in ipairs(together) do redis.call('PEXPIRE', key, ms) end
end

-- insert puts an owner inside. It returns the owner's token, the first of n if it takes several.
local function insert(owner, ttl, detail, rest, n)
  local token = mint(n)
  redis.call('ZADD', K, millis() + ttl + rest, owner)
  redis.call('HSET', INSIDE, owner, string.format('%.0f\t%d\t%s', token, rest, detail))
  keep_keys(ttl + rest)
  return token
end

-- record returns the token, the rest and the detail of an owner.
local function record(owner)
  local token, rest, detail = string.match(redis.call('HGET', INSIDE, owner) or '', '^(%d+)\t(%d+)\t(.*)$')
  return tonumber(token), tonumber(rest), detail
end

-- find returns the record of an owner whose lease has not ended and when it ends, or nil.
local function find(owner)
  local free = redis.call('ZSCORE', K, owner)
  if not free then return nil end
  local token, rest, detail = record(owner)
  if not token or free - rest <= millis() then return nil end
  return token, rest, detail, free - rest
end

-- shorten lets the keys end with the last place, and forgets everything if no place is taken: else
-- the mark would keep others out when the last owner has died. While tickets are in line the mark
-- stays as long as they may: the next in line must not bring back a size of before.
local function shorten()
  local last = redis.call('ZRANGE', K, -1, -1, 'WITHSCORES')[2] or 0
  local ms = math.max(last - millis(), redis.call('PTTL', QUEUE))
  if ms <= 0 then
    redis.call('DEL', unpack(together))
  elseif redis.call('PTTL', K) > ms then
    for _, key in ipairs(together) do redis.call('PEXPIRE', key, ms) end
  end
end

-- drop clears the place of an owner.
local function drop(owner)
  redis.call('ZREM', K, owner)
  redis.call('HDEL', INSIDE, owner)
  shorten()
end

-- part takes an owner out of K and gives back what it had; or neither, for want of a right. ZREM comes
-- first: a server that is out of memory refuses a script whose first write could need some.
local function part(owner, give)
  local free = redis.call('ZSCORE', K, owner)
  redis.call('ZREM', K, owner)
  local done, reason = pcall(give)
  if not done then
    redis.call('ZADD', K, free, owner)
    fail(reason)
  end
end

-- sweep clears the places whose time has passed, and calls cleared with the detail of each. If INSIDE
-- was evicted, no detail tells what such an owner had: once the last of those is cleared, recount is
-- called with what the owners inside have. So it is if a script ends between two of the three steps, for
-- want of a right: HDEL comes first, which a server that is out of memory allows, and ZREM last.
local function sweep(cleared, recount)
  local unknown = false
  for _, owner in ipairs(redis.call('ZRANGEBYSCORE', K, 0, millis(), 'LIMIT', 0, MANY)) do
    local _, _, detail = record(owner)
    redis.call('HDEL', INSIDE, owner)
    if cleared and detail then cleared(detail) end
    redis.call('ZREM', K, owner)
    unknown = unknown or not detail
  end
  if unknown and recount and redis.call('ZCARD', K) - 1 == redis.call('HLEN', INSIDE) then
    local details = {}
    for i, text in ipairs(redis.call('HVALS', INSIDE)) do details[i] = string.match(text, '^%d+\t%d+\t(.*)$') end
    recount(details)
  end
end

local function leave(owner)
  if not find(owner) then return false end
  drop(owner)
  return 0
end

local function extend(owner, ttl, exactly)
  local token, rest, _, ends = find(owner)
  if not token then return false end
  local left = ends - millis()
  if not exactly then ttl = math.max(ttl, left) end
  -- PEXPIRE comes first: a server that is out of memory refuses a script whose first write could
  -- need some.
  keep_keys(ttl + rest)
  redis.call('ZADD', K, millis() + ttl + rest, owner)
  if ttl < left then shorten() end
  return true
end

-- cold
-- tidy does the same where it is not known whether K is a lock: it may be a sorted set of a program.
local function tidy()
  local _, attribute = mark()
  if attribute then shorten() end
end

-- stay keeps what lasts for longer than the last place as long as a line that lasts for ms: a size that
-- was changed while tickets of the old one were in line. K may be a sorted set of a program.
local function stay(ms)
  local _, attribute = mark()
  local last = attribute and redis.call('ZRANGE', K, -1, -1, 'WITHSCORES')[2]
  if last and redis.call('PTTL', K) > last - millis() + 1000 then keep_keys(ms) end -- the two clocks differ a little
end

-- shut ends the lease of an owner, and leaves its place at rest. The grant that follows lets the
-- keys end with the last place.
local function shut(owner, ms)
  local token, _, detail = find(owner)
  if not token then return false end
  -- PEXPIRE comes first: a server that is out of memory refuses a script whose first write could
  -- need some.
  keep_keys(ms)
  redis.call('ZADD', K, millis() + ms, owner)
  redis.call('HSET', INSIDE, owner, string.format('%.0f\t%d\t%s', token, ms, detail))
  return 0
end

-- open ends the rest of a place; the next admission clears it.
local function open(owner)
  local free = redis.call('ZSCORE', K, owner)
  if not free or tonumber(free) <= millis() or find(owner) then return false end
  redis.call('ZADD', K, millis(), owner)
  return 0
end

local function set_token(owner, token)
  local _, rest, detail = record(owner)
  if rest then redis.call('HSET', INSIDE, owner, string.format('%.0f\t%d\t%s', token, rest, detail)) end
end

-- rename takes the owner out of K first: with both inside, what they have would count twice. INSIDE knows
-- the successor before it forgets the owner: a key that was empty in between would lose its TTL.
local function rename(owner, successor)
  local free = redis.call('ZSCORE', K, owner)
  redis.call('ZREM', K, owner)
  redis.call('ZADD', K, free, successor)
  redis.call('HSET', INSIDE, successor, redis.call('HGET', INSIDE, owner))
  redis.call('HDEL', INSIDE, owner)
end

local function granted(owner)
  local token, _, detail = record(owner)
  return token, detail
end

local met, free -- the owner whose place is free first, and when
local function remaining()
  local first = redis.call('ZRANGEBYSCORE', K, 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  met, free = first[1], tonumber(first[2])
  return met and math.max(0, free - millis()) or -2
end

local function foreign()
  return false
end

local function occupant()
  if not met or free <= millis() then return met or '' end
  local _, rest = record(met)
  return rest and free - rest <= millis() and met .. '\tshut' or met
end

local function holders(most)
  local all, found = redis.call('ZRANGEBYSCORE', K, '(' .. millis(), '+inf', 'WITHSCORES', 'LIMIT', 0, most or -1), {}
  for i = 1, #all, 2 do
    local token, rest, detail = record(all[i])
    local free = all[i + 1] - millis()
    local left = free - (rest or free)
    found[#found + 1] = {all[i], left > 0 and left or free, string.format('%.0f', token or 0), detail or '', left > 0 and 0 or 1}
  end
  return found
end
