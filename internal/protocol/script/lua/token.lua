-- Time and tokens, for every kind. mutex_acquire.lua has a copy of mint for a mutex that is free.
-- quorum_token.lua takes the place of this file on a node of a quorum; the client chooses the token among
-- those of the nodes (ballot/tally.go). A client that passes a lock on
-- or keeps it counts tokens by itself: lease/pass.go, lease/kept.go.

local FENCE, QUEUE, CLIENTS = KEYS[2], KEYS[3], KEYS[4]

-- now returns the server's time in microseconds, the same throughout a script.
local clock
local function now()
  if not clock then
    local t = redis.call('TIME')
    clock = t[1] * 1000000 + t[2]
  end
  return clock
end

-- mint makes the next fencing token, a number that only grows. It remembers for ARGV[1] seconds
-- that the token is taken, and so are the n - 1 numbers after it. 0 seconds: the fence is a key of
-- another library, which counts there, too, and its expiry stays as it is.
--
-- It is tempting to use INCR. A replica that was promoted, or a server that lost its data, would
-- hand out old numbers again. The clock orders them.
local function mint(n)
  local time, more, ttl, last = now(), (n or 1) - 1, ARGV[1], nil
  if ttl == '0' then
    last = redis.call('GET', FENCE)
    time = math.max(time, last and tonumber(last) + 1 or 0)
    redis.call('SET', FENCE, time + more, 'KEEPTTL')
    return time
  end
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
