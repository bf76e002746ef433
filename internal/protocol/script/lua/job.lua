-- Kind job: at most one run in a window of time, which begins with the run.
--
-- State  as in zset.lua; no attribute. Beside the owner that runs, the member "window", whose score
--        is the end of the window. INSIDE has, for "window", the owner that closed it.
-- Param  ms of the window
-- Detail server time in ms at which the window ends

-- close lets no owner in until ends.
local function close(ends)
  redis.call('ZADD', K, ends, 'window')
  keep_keys(ends - millis())
end

local function admit(owner, ttl, param)
  local kind = mark()
  if kind and kind ~= 'job' then return false, 'kind\t' .. kind end
  if kind then sweep() end
  if redis.call('ZCARD', K) > 1 then return false end
  local ends = math.ceil(now() / 1000) + param -- no earlier than asked for
  create('job', '')
  local token = insert(owner, ttl, string.format('%.0f', ends), 0)
  redis.call('HSET', INSIDE, 'window', owner)
  close(ends)
  return token, '', false
end
admit = whole(admit)

-- leave opens the window again if the run never began, also when its lease has ended.
local function leave(owner, begun)
  if owner == 'window' then -- a run that is inside has an owner, and may have begun since
    for _, other in ipairs(redis.call('ZRANGEBYSCORE', K, millis() + 1, '+inf')) do
      if other ~= 'window' then return false end
    end
    return redis.call('DEL', K, INSIDE) > 0 and 0
  end
  local token, _, ends = find(owner)
  if not token then
    if begun == '1' or redis.call('HGET', INSIDE, 'window') ~= owner then return false end
    return redis.call('DEL', K, INSIDE) > 0 and 0
  end
  if begun == '1' and tonumber(ends) > millis() then
    -- The run took place, whatever comes late. HDEL comes first: a server that is out of memory
    -- refuses a script whose first write could need some.
    redis.call('HDEL', INSIDE, 'window')
    close(tonumber(ends))
    drop(owner)
  else
    redis.call('DEL', K, INSIDE)
  end
  return 0
end

-- cold
local KIND = 'job'
local ROOMY = false

local function join()
  return false
end

-- closed_by reports whether the window is that of this owner. Then no other has been inside since.
local function closed_by(owner)
  return redis.call('HGET', INSIDE, 'window') == owner
end

-- The window is the successor's from now on: see mend.lua.
local rename_hold = rename
local function rename(owner, successor)
  rename_hold(owner, successor)
  if redis.call('HGET', INSIDE, 'window') == owner then redis.call('HSET', INSIDE, 'window', successor) end
end
