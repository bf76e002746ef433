-- epoch: tell of this node's right to vote, have it rest, and give it the right when it has rested.
--
-- KEYS  epoch
-- ARGV  step ('look', 'rest', or 'seat' one that has rested), process that it is for, rest ms, floor, bound ms
-- Reply {1 if it votes, 1 if it ever did, process, bound ms, high, rest ms (-1 if not begun), now us}
-- Cost  3 to 6 commands

local EPOCH = KEYS[1]
local epoch = redis.call('HMGET', EPOCH, 'run', 'ttl', 'high', 'resting', 'until')
local run, bound, high, resting, rest = epoch[1], tonumber(epoch[2] or 0), tonumber(epoch[3] or 0), epoch[4], tonumber(epoch[5] or 0)
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ms = math.floor(now / 1000)

-- A process that is not this one was seen before a restart: what was concluded from it does not hold any more.
if ARGV[2] == process and run ~= process then
  if ARGV[1] == 'rest' and resting ~= process then
    resting, rest = process, ms + ARGV[3]
    redis.call('HSET', EPOCH, 'resting', process, 'until', rest)
  elseif ARGV[1] == 'seat' and resting == process and rest <= ms then
    run, bound, high = process, math.max(bound, ARGV[5]), math.max(high, ARGV[4])
    redis.call('HSET', EPOCH, 'run', run, 'ttl', bound, 'high', high, 'floor', high)
    redis.call('HDEL', EPOCH, 'resting', 'until')
  end
end
return {run == process and 1 or 0, run and 1 or 0, process, bound, high, resting == process and math.max(0, rest - ms) or -1, now}
