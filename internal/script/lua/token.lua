-- Time and tokens, for every kind.

local FENCE, QUEUE, CLIENTS = KEYS[2], KEYS[3], KEYS[4]

-- now is the server's time in microseconds, the same throughout a script.
local clock
local function now()
  if not clock then
    local t = redis.call('TIME')
    clock = t[1] * 1000000 + t[2]
  end
  return clock
end

-- mint makes the next fencing token, a number that only grows, and remembers for ARGV[1] seconds that it is taken, and so are the n - 1
-- numbers after it.
-- Not INCR: a replica that was promoted, or a server that lost its data, would hand out old numbers again. The clock orders them.
local function mint(n)
  local time, more, ttl, last = now(), (n or 1) - 1, ARGV[1], nil
  if redis.REDIS_VERSION_NUM then -- since 7.0; SET GET is there since 6.2
    last = redis.call('SET', FENCE, time + more, 'EX', ttl, 'GET')
  else
    last = redis.call('GET', FENCE)
    redis.call('SET', FENCE, time + more, 'EX', ttl)
  end
  last = last and tonumber(last)
  if last and last >= time then
    time = last + 1
    redis.call('SET', FENCE, time + more, 'EX', ttl)
  end
  return time
end
