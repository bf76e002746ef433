-- What release begins with for a mutex: the release of one that has no line, without a minimal
-- hold. See mutex_acquire.lua.

if ARGV[3] == '' and not ARGV[5] and redis.call('EXISTS', KEYS[3]) == 0 and redis.call('GET', KEYS[1]) == ARGV[2] then
  redis.call('DEL', KEYS[1])
  return 1
end
