-- proclaim: change the value of a leader during its term, and tell observers. It never creates a
-- lease, and gives it no more time. A request that arrives after a later one changes nothing.
--
-- KEYS  K, fence, queue, clients (and after those of the kind)
-- ARGV  owner, value, number (larger than that of all earlier requests for the owner)
-- Reply 1 if the owner is inside, else 0
-- Cost  6 commands

-- cold
local owner, value, number = ARGV[1], ARGV[2], tonumber(ARGV[3])
local token, rest = find(owner)
if not token then return 0 end
local last, of = string.match(redis.call('HGET', INSIDE, 'said') or '', '^(%d+)\t(.*)$')
if of == owner and tonumber(last) >= number then return 1 end
redis.call(
  'HSET', INSIDE, owner, string.format('%.0f\t%d\t%s', token, rest, value), 'said', string.format('%.0f\t%s', number, owner)
)
publish_change('proclaimed')
return 1
