-- renews: give the leases of several mutexes so many ms from now on, if they have less.
--
-- KEYS  for each mutex: K
-- ARGV  for each mutex: owner, ttl ms
-- Reply for each: 1 if the owner is inside, else 0
-- Cost  3 commands for each

local done = {}
for i = 1, #KEYS do
  K = KEYS[i]
  done[i] = extend(ARGV[2 * i - 1], ARGV[2 * i]) and 1 or 0
end
return done
