-- What acquire begins with for a mutex: the acquisition of one that is free and has no line, with
-- one token. It does what acquire.lua does with mutex.lua and token.lua, written without functions,
-- which Lua makes anew for each run. Where it does not let the owner in, it has changed nothing.
-- TIME is two texts: joined they are the token, if the microseconds have six digits. To make a text
-- of a number takes longer.

local tried = redis.REDIS_VERSION_NUM and ARGV[4] == '' -- SET GET is there since 6.2
if tried and redis.call('EXISTS', KEYS[3]) == 0 and redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) then
  local t = redis.call('TIME')
  local text = type(t[2]) == 'string' and #t[2] == 6 and t[1] .. t[2] or t[1] * 1000000 + t[2]
  local last = redis.call('SET', KEYS[2], text, 'EX', ARGV[1], 'GET')
  local token = tonumber(text)
  last = last and tonumber(last)
  if last and last >= token then
    token = last + 1
    redis.call('SET', KEYS[2], token, 'EX', ARGV[1])
  end
  return token
end
