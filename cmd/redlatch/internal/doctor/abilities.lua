-- Tries what the scripts of redlatch need of a server, and returns a list of names, each with "" or
-- what is wrong. Its keys live for 5 s at most.
--
--	KEYS  a string, a sorted set, a bitmap, a channel; all in one slot
--	ARGV  the commands that may be missing, as of SPUBLISH outside of a cluster

local text, set, bits, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local found = {}
local function call(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then error(reply.err, 0) end
  return reply
end
local function try(name, f)
  local ok, wrong = pcall(f)
  if ok then wrong = wrong or '' elseif type(wrong) == 'table' then wrong = wrong.err or 'error' end
  found[#found + 1] = name
  found[#found + 1] = tostring(wrong)
end
local function kept(value)
  call('SET', text, value, 'PX', 5000)
  return call('GET', text)
end
try('time', function()
  local t = call('TIME')
  if not (tonumber(t[1]) and tonumber(t[2])) then return 'TIME answers no two numbers' end
end)
try('expiry', function()
  call('SET', text, 'x', 'NX', 'PX', 5000)
  local ms = call('PTTL', text)
  if not (ms > 0 and ms <= 5000) then return 'a key of PX 5000 has a PTTL of ' .. tostring(ms) end
end)
try('numbers', function()
  local token = 1795217231336333
  for value, want in pairs({[kept(token)] = '1795217231336333', [kept(10 / 2)] = '5', [string.format('%.0f', token)] = '1795217231336333'}) do
    if value ~= want then return want .. ' becomes ' .. value end
  end
end)
try('sorted sets', function()
  call('ZADD', set, 'NX', 1795217231336333, 'a')
  call('PEXPIRE', set, 5000)
  local all = call('ZRANGE', set, 0, 0, 'WITHSCORES')
  if all[1] ~= 'a' or tonumber(all[2]) ~= 1795217231336333 then return 'a score of 1795217231336333 becomes ' .. tostring(all[2]) end
  call('ZREM', set, unpack({'a'}))
end)
try('bitmaps', function()
  call('SETBIT', bits, 0, 1)
  call('PEXPIRE', bits, 5000)
  local free = call('BITPOS', bits, 0)
  if free ~= 1 then return 'the first free bit after one is ' .. tostring(free) end
end)
try('run_id', function()
  if not string.match(call('INFO', 'server'), 'run_id:(%x+)') then return 'INFO tells no run_id' end
end)
try('PUBLISH', function()
  if type(call('PUBLISH', channel, 'x')) ~= 'number' then return 'PUBLISH does not count' end
end)
try('NUMSUB', function()
  if type(call('PUBSUB', 'NUMSUB', channel)[2]) == 'nil' then return 'PUBSUB NUMSUB does not count' end
end)
for _, name in ipairs(ARGV) do
  try(name, function() call(name, channel, 'x') end)
end
redis.pcall('DEL', text, set, bits)
return found
