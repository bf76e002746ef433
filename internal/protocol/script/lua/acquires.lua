-- acquires: let the owners of several mutexes in, each if the mutex is free and its line is empty.
-- Sent twice, it leaves undecided the owners that the first request let in.
--
-- KEYS  for each mutex: K, fence, queue
-- ARGV  fence ttl s, then for each mutex: owner, ttl ms, param
-- Reply for each: the token, or 0, undecided: acquire tells how it stands, and takes a place
-- Cost  3 commands for each, and one for all

local tokens = {}
for i = 1, #KEYS, 3 do
  K, FENCE, QUEUE = KEYS[i], KEYS[i + 1], KEYS[i + 2]
  local n = (i + 2) / 3
  tokens[n] = redis.call('EXISTS', QUEUE) == 0 and admit(ARGV[3 * n - 1], ARGV[3 * n], ARGV[3 * n + 1]) or 0
end
return tokens
