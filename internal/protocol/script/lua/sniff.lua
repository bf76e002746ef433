-- sniff: find out what kind of latch a name is used for. It changes nothing.
--
-- KEYS  K, fence, queue, clients
-- ARGV  none
-- Reply {type of K, mark, last ticket in line or ''}; mark: the first member if K is a sorted set,
--       the value if it is a hash with one field, or ''
-- Cost  4 commands

local kind = redis.call('TYPE', KEYS[1]).ok
local mark = ''
if kind == 'zset' then
  mark = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
elseif kind == 'hash' and redis.call('HLEN', KEYS[1]) == 1 then
  mark = redis.call('HVALS', KEYS[1])[1]
end
-- The line may be another program's key. This script is asked what is there when others fail for that.
local line = redis.pcall('ZRANGE', KEYS[3], -1, -1)
if line.err and not string.find(line.err, 'WRONGTYPE', 1, true) then return line end
return {kind, mark, line[1] or ''}
