-- Forced: what force.lua and seize.lua share. See line.lua for FORCED.

-- cold
-- tell_forced remembers for ms that the latch was taken from an owner by force, and tells the
-- owner's client (Keeper.Revoked), which may listen to either channel. A message to the plain one goes to all nodes
-- of a cluster.
local function tell_forced(owner, text, ms, address, shard)
  local note = string.format('%.0f', now()) .. '\t' .. text
  if redis.call('HLEN', FORCED) > 128 then redis.call('DEL', FORCED) end -- so many at once are too many to tell each
  -- PEXPIRE comes first, and again for a new key: a user that may not run it must not leave one for
  -- ever.
  local there = redis.call('PEXPIRE', FORCED, ms)
  redis.call('HSET', FORCED, 'last', owner, 'of ' .. owner, note)
  if there == 0 then redis.call('PEXPIRE', FORCED, ms) end
  local message = 'revoke\t' .. owner .. '\t' .. note
  local heard = shard ~= '' and redis.pcall('SPUBLISH', shard, message)
  if type(heard) == 'number' and heard > 0 then return end
  if address ~= '' then redis.pcall('PUBLISH', address, message) end
end
