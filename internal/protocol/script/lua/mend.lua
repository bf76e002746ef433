-- mend: take an owner in again that a majority of the other nodes has just confirmed. It makes up
-- for a restart of this node, so that a lease outlives restarts of all nodes, one after the other.
-- It does nothing if another owner is inside, or was since.
--
-- KEYS  K, fence, queue, clients (and last of all the epoch)
-- ARGV  fence ttl s, owner, ttl ms, param, bound ms, token, detail
-- Reply {1} if the owner is inside, else {0}; {-2, rest ms} as vote
-- Cost  8 to 12 commands; for a mutex

-- cold
local owner, ttl, token = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[6])
local right, bound = votes()
if not right then
  local rest = redis.call('HMGET', EPOCH, 'resting', 'until')
  return {-2, rest[1] == process() and math.max(0, rest[2] - math.floor(now() / 1000)) or 0}
end
if extend(owner, ttl) and agrees(owner, ARGV[7]) then return {1} end
if tonumber(redis.call('GET', FENCE) or 0) > token then return {0} end
if tonumber(ARGV[5]) > bound then redis.call('HSET', EPOCH, 'ttl', ARGV[5]) end
local number = admit(owner, ttl, ARGV[4])
if not (number and agrees(owner, ARGV[7])) then return {0} end
remember(math.max(number, token), tonumber(redis.call('HGET', EPOCH, 'high') or 0))
set_token(owner, token)
return {1}
