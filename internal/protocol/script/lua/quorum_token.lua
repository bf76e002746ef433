-- Time, tokens and the right to vote, for a node of a quorum. It takes the place of token.lua.
--
-- EPOCH is a hash, one for each kind on a node:
--   run       the server process that has the right to vote
--   ttl       the longest time in ms that a vote of this node has bound it for
--   high      the largest number that it gave or was told, of whatever name
--   floor     what high was told to be when the node got its right
--   resting   a process without the right, which is at rest
--   until     the time in ms at which the rest ends
--   begun     the time in ms at which it began
--
-- A process that has no right may have forgotten locks and numbers: it was restarted, or its keys
-- were deleted. So it does not vote.

local FENCE, QUEUE, CLIENTS, EPOCH = KEYS[2], KEYS[3], KEYS[4], KEYS[#KEYS]

-- now returns the server's time in microseconds, the same throughout a script.
local clock
local function now()
  if not clock then
    local t = redis.call('TIME')
    clock = t[1] * 1000000 + t[2]
  end
  return clock
end

-- process returns the name of the server process, another after each start. The tempting match of
-- 'run_id:(%x+)' tries the pattern at each character of a reply of 700, and costs as much as INFO.
local function process()
  local info = redis.pcall('INFO', 'server')
  local at = type(info) == 'string' and string.find(info, 'run_id:', 1, true)
  return at and string.match(info, '^%x+', at + 7)
    or error('INFO is not permitted in scripts, or tells no run_id: such a server cannot be a node of a quorum')
end

-- votes reports whether this node has the right to vote, and the longest time that it has bound
-- itself for.
local function votes()
  local epoch = redis.call('HMGET', EPOCH, 'run', 'ttl')
  return epoch[1] == process(), tonumber(epoch[2] or 0)
end

-- remember keeps a number for ARGV[1] seconds, and in high for ever that there was one so large.
local function remember(number, high)
  redis.call('SET', FENCE, number, 'EX', ARGV[1])
  if number > high then redis.call('HSET', EPOCH, 'high', number) end
end

-- mint makes the next number of the name (mutex_vote.lua has the same for a free mutex; raise.lua
-- writes the largest back, which ballot/tally.go finds). It is larger than every number of the name
-- that this node knows, or has forgotten when its time had passed: those are not above high. A name that is new
-- begins at the clock, in case all nodes lose everything.
--
-- It is tempting to follow the clock, as on a single server. But nodes that count agree, so that a
-- majority has the token in one round trip.
local function mint()
  local epoch = redis.call('HMGET', EPOCH, 'high', 'floor')
  local high, floor, last = tonumber(epoch[1] or 0), tonumber(epoch[2] or 0), tonumber(redis.call('GET', FENCE) or nil)
  local number = last and math.max(last, floor) + 1 or math.max(now(), high + 1)
  remember(number, high)
  return number
end

-- cold
-- no_right returns the reply of a node without the right to vote. A rest that began in the future began
-- by a clock that was set back since: for as long as it was ahead, the node would not vote.
local function no_right()
  local rest, ms = redis.call('HMGET', EPOCH, 'resting', 'until', 'begun'), math.floor(now() / 1000)
  return {-2, rest[1] == process() and tonumber(rest[3]) <= ms and math.max(0, rest[2] - ms) or 0}
end
