-- epoch: tell of this node's right to vote, and give it to a node that may have it.
--
-- KEYS  epoch
-- ARGV  run ('' to only look), rest ms, floor, bound ms
-- Reply {1 if it votes, 1 if it ever did, process, bound ms, high, rest ms (-1 if not begun), now us}
-- Cost  3 to 6 commands

local EPOCH = KEYS[1]
local epoch = redis.call('HMGET', EPOCH, 'run', 'ttl', 'high', 'resting', 'until')
local run, bound, high, resting, rest = epoch[1], tonumber(epoch[2] or 0), tonumber(epoch[3] or 0), epoch[4], tonumber(epoch[5] or 0)
local process = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ms = math.floor(now / 1000)

-- A run that is not this process was seen before a restart: what was concluded from it does not hold any more.
if ARGV[1] == process and run ~= process then
  if resting ~= process and tonumber(ARGV[2]) > 0 then
    resting, rest = process, ms + ARGV[2]
    redis.call('HSET', EPOCH, 'resting', process, 'until', rest)
  elseif resting ~= process or rest <= ms then
    run, bound, high = process, math.max(bound, ARGV[4]), math.max(high, ARGV[3])
    redis.call('HSET', EPOCH, 'run', run, 'ttl', bound, 'high', high, 'floor', high)
    redis.call('HDEL', EPOCH, 'resting', 'until')
  end
end
return {run == process and 1 or 0, run and 1 or 0, process, bound, high, resting == process and math.max(0, rest - ms) or -1, now}
