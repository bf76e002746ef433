-- releases: take the owners of several mutexes out, each if its line is empty. Sent twice, it
-- leaves undecided the owners that the first request took out.
--
-- KEYS  for each mutex: K, queue
-- ARGV  for each mutex: owner
-- Reply for each: 1, or 0, undecided: release tells whether the owner was inside, and lets in the
--       next in line
-- Cost  3 commands for each

local left = {}
for i = 1, #KEYS, 2 do
  K, QUEUE = KEYS[i], KEYS[i + 1]
  local n = (i + 1) / 2
  left[n] = redis.call('EXISTS', QUEUE) == 0 and leave(ARGV[n]) and 1 or 0
end
return left
