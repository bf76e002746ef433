-- force: take the latch from an owner, tell its client, and let in who is next. The token moves on in any case.
--
-- KEYS  K, fence, queue, clients
-- ARGV  owner, address of the owner's client ('' if unknown), fence ttl s
-- Reply 1 if the owner was inside, else 0
-- Cost  as release, and 3

-- cold
if not leave(ARGV[1]) then return 0 end
mint(now(), ARGV[3])
if ARGV[2] ~= '' then redis.pcall('PUBLISH', ARGV[2], 'revoke\t' .. ARGV[1]) end
grant('', ARGV[3], false)
return 1
