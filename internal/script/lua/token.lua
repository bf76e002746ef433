-- Tokens: numbers that only grow, for every kind.

local FENCE, QUEUE, CLIENTS = KEYS[2], KEYS[3], KEYS[4]

-- now is the server's time in microseconds.
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end

-- mint makes the next fencing token and remembers it for ttl seconds.
-- Not INCR: a replica that was promoted, or a server that lost its data, would hand out old numbers again. The clock orders them.
local function mint(time, ttl)
  local last
  if redis.REDIS_VERSION_NUM then -- since 7.0; SET GET is there since 6.2
    last = redis.call('SET', FENCE, time, 'EX', ttl, 'GET')
  else
    last = redis.call('GET', FENCE)
    redis.call('SET', FENCE, time, 'EX', ttl)
  end
  last = last and tonumber(last)
  if last and last >= time then
    time = last + 1
    redis.call('SET', FENCE, time, 'EX', ttl)
  end
  return time
end
