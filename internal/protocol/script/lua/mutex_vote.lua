-- What vote begins with for a mutex: one that is free and has no line, at a node that has the right
-- to vote and was bound for as long before. See mutex_acquire.lua.

local EPOCH = KEYS[#KEYS]
if ARGV[6] == '0' and redis.call('EXISTS', KEYS[1], KEYS[3]) == 0 then
  local epoch = redis.call('HMGET', EPOCH, 'run', 'ttl', 'high', 'floor')
  local info = epoch[1] and tonumber(ARGV[5]) <= tonumber(epoch[2] or 0) and redis.pcall('INFO', 'server')
  local right = type(info) == 'string' and string.find(info, 'run_id:' .. epoch[1] .. '\r', 1, true)
  if right and redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) then
    local high, number, last = tonumber(epoch[3] or 0), nil, redis.call('GET', KEYS[2])
    if last then
      number = math.max(tonumber(last), tonumber(epoch[4] or 0)) + 1
    else
      local t = redis.call('TIME')
      number = math.max(t[1] * 1000000 + t[2], high + 1)
    end
    redis.call('SET', KEYS[2], number, 'EX', ARGV[1])
    if number > high then redis.call('HSET', EPOCH, 'high', number) end
    return {1, number, ''}
  end
end
