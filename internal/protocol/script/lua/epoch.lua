-- epoch: tell of this node's right to vote, begin its rest, and restore the right after the
-- rest. A rest that turns out to be too short at its end goes on: a node that did not
-- answer when it began may know of a longer bound. That of a new quorum is of 0 ms and never goes
-- on, though another client may find some nodes voting before the last has its right.
--
-- KEYS  epoch
-- ARGV  step ('look', 'rest' to begin a rest, or 'seat' to restore the right after it),
--       process that it is for, ms from the beginning of the rest to its end, floor, bound ms
-- Reply {1 if it votes, 1 if it ever did, process, bound ms, high, rest ms (-1 if not begun),
--       now us}
-- Cost  3 to 6 commands

local EPOCH = KEYS[1]
local epoch = redis.call('HMGET', EPOCH, 'run', 'ttl', 'high', 'resting', 'until', 'begun')
local run, bound, high, resting = epoch[1], tonumber(epoch[2] or 0), tonumber(epoch[3] or 0), epoch[4]
local rest, begun = tonumber(epoch[5] or 0), tonumber(epoch[6] or 0)
local info = redis.pcall('INFO', 'server')
local process = type(info) == 'string' and string.match(info, 'run_id:(%x+)')
  or error('INFO is not permitted in scripts, or tells no run_id: such a server cannot be a node of a quorum')
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ms = math.floor(now / 1000)
if resting == process and begun > ms then resting = false end -- the clock was set back: it begins anew

-- If process is another than this one, the client saw it before a restart. What it concluded from
-- that does not hold any more.
if ARGV[2] == process and run ~= process then
  if ARGV[1] == 'rest' and resting ~= process then
    resting, rest = process, ms + ARGV[3]
    redis.call('HSET', EPOCH, 'resting', process, 'until', rest, 'begun', ms)
  elseif ARGV[1] == 'seat' and resting == process and rest > begun and begun + ARGV[3] > math.max(ms, rest) then
    rest = begun + ARGV[3]
    redis.call('HSET', EPOCH, 'until', rest)
  elseif ARGV[1] == 'seat' and resting == process and rest <= ms then
    run, bound, high = process, math.max(bound, ARGV[5]), math.max(high, ARGV[4])
    redis.call('HSET', EPOCH, 'run', run, 'ttl', bound, 'high', high, 'floor', high)
    redis.call('HDEL', EPOCH, 'resting', 'until', 'begun')
  end
end
return {run == process and 1 or 0, run and 1 or 0, process, bound, high, resting == process and math.max(0, rest - ms) or -1, now}
