-- multi: lock several mutexes, all or none. Sent twice, it means one.
--
-- KEYS  for each mutex: K, fence, queue, clients
-- ARGV  fence ttl s, ttl ms, then for each mutex: owner
-- Reply the token of each; none if one of them is held by another owner, or its line is not empty
-- Cost  6 commands for each

local tokens = {}
for i = 1, #KEYS, 4 do
  local owner = ARGV[2 + (i + 3) / 4]
  local held = redis.call('GET', KEYS[i])
  if held and held ~= owner or not held and redis.call('EXISTS', KEYS[i + 2]) == 1 then return tokens end
end
for i = 1, #KEYS, 4 do
  FENCE = KEYS[i + 1]
  local held = redis.call('GET', KEYS[i])
  -- A request that is late must not shorten a lease that a later one made longer.
  if not held then
    redis.call('SET', KEYS[i], ARGV[2 + (i + 3) / 4], 'PX', ARGV[2])
  elseif redis.call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
  tokens[#tokens + 1] = held and tonumber(redis.call('GET', FENCE)) or mint()
end
return tokens
