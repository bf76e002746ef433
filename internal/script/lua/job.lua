-- Kind job: at most one run in a window of time, which begins with the run.
--
-- State  as in zset.lua; no parameter. Beside the owner who runs, the member "window", whose score is the end of the window; in a window
--        that a failed run does not use up, only after a run that did not fail.
-- Arg    ms of the window, colon, 1 if every run uses it up, else 0
-- Got    server time in ms at which the window ends

-- close lets nobody in until then.
local function close(ends)
  redis.call('ZADD', K, ends, 'window')
  outlive(ends - millis())
end

local function admit(owner, ttl, arg)
  local kind = mark()
  if kind and kind ~= 'job' then return false, 'kind\t' .. kind end
  if kind then sweep() end
  if redis.call('ZCARD', K) > 1 then return false end
  local window, always = string.match(arg, '^(%d+):([01])$')
  local ends = millis() + window
  begin('job', '')
  local token = place(owner, ttl, string.format('%.0f', ends), 0)
  if always == '1' then close(ends) end
  return token, '', false
end

-- leave opens the window again unless the result is "done".
local function leave(owner, result)
  if owner == 'window' then return redis.call('DEL', K, INSIDE) > 0 and 0 end
  local token, _, ends = find(owner)
  if not token then return false end
  if result == 'done' and tonumber(ends) > millis() then
    redis.call('ZREM', K, owner) -- first: a server that is out of memory refuses a script whose first write could need some
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
