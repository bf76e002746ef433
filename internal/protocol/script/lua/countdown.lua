-- Kind countdown: a count that goes down to zero. Its waiters stand in the line, and are all told
-- when it is zero. No owner is ever inside, so none is let in out of the line.
--
-- State  K: a sorted set. First, at the score -1, the mark: the kind, a tab, and separated by
--        colons the count, what it was set to, the ms for which it lasts, its round, the first
--        round since K is there, and the last 16 rounds that ended, each after a comma. A round is
--        a token, made when the count is set. Then what has counted, by the server's time in us:
--        owners of requests; and the ids of which each counts once in a round: "once", the round
--        and the id, separated by tabs. All of a round are kept, 100,000 at most, and the last 1000
--        of the rounds before. Between them and the mark, by the server's time in ms: the last 1000
--        owners of requests whose id had counted already.
-- Param  of a ticket: the round that its waiter waits for

local K = KEYS[1]
local KIND = 'countdown'

local function leave()
  return false
end

-- cold
local KEPT = 1000 -- entries of what has counted that stay when a round has ended
local ENDED = 16 -- rounds that are known to have ended

-- other_in_line returns a reason if the last in line waits for another kind. The ticket of yield is
-- that of no waiter.
local function other_in_line()
  local last = redis.call('ZRANGE', QUEUE, -1, -1)[1]
  local kind = last and string.match(last, '^%u(%l+)\t')
  return kind and kind ~= KIND and kind ~= YIELD and 'kind\t' .. kind or nil
end

-- state returns what the mark says, nil if there is none. It returns nil and a reason if the name
-- is of another kind.
local function state()
  local text = redis.call('ZRANGE', K, 0, 0)[1]
  if not text then
    local reason = other_in_line()
    if reason then head('') end -- drops the dead before the first that lives
    return nil, reason and other_in_line()
  end
  local left, of, ms, round, first, ended = string.match(text, '^countdown\t(%d+):(%d+):(%d+):(%d+):(%d+):([%d,]*)$')
  if not left then return nil, 'kind\t' .. (string.match(text, '^(%l+)\t') or 'sorted set') end
  return {text = text, left = tonumber(left), of = of, ms = ms, round = tonumber(round), first = tonumber(first), ended = ended}
end

-- write changes the mark. The new one comes before the old one goes: a key that was empty in
-- between would lose its TTL.
local function write(s)
  local text = string.format('%s\t%.0f:%s:%s:%.0f:%.0f:%s', KIND, s.left, s.of, s.ms, s.round, s.first, s.ended)
  if text == s.text then return end
  redis.call('ZADD', K, -1, text)
  if s.text then redis.call('ZREM', K, s.text) end
end

-- repeats returns how many requests are noted whose id had counted already. Their scores are smaller
-- than any time in us.
local function repeats()
  return redis.call('ZCOUNT', K, 0, 100000000000000)
end

-- forget drops the oldest of what has counted.
local function forget()
  redis.call('ZREMRANGEBYRANK', K, 1 + repeats(), -KEPT - 1)
end

-- note_repeat notes the owner of a request whose id had counted already, and drops the oldest.
-- PEXPIRE comes first: a server that is out of memory refuses a script whose first write could need
-- some.
local function note_repeat(owner)
  redis.call('PEXPIRE', K, math.max(1, redis.call('PTTL', K)))
  redis.call('ZADD', K, math.floor(now() / 1000), owner)
  redis.call('ZREMRANGEBYRANK', K, 1, math.max(0, repeats() - KEPT))
end

local function admit()
  return false
end

local function tidy() end

local function remaining()
  return -2
end

local function foreign()
  return false
end

local function holders()
  return {}
end
