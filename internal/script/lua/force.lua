-- force: take the latch from an owner, or open what it left shut, tell its client, and let in who is next. The token moves on in any case.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s, owner, address of the owner's client ('' if unknown), 1 if that is a sharded channel
-- Reply 1 if the owner was inside or had left it shut, else 0
-- Cost  as release, and 3

-- cold
if not leave(ARGV[2], '') and not open(ARGV[2]) then return 0 end
mint()
if ARGV[3] ~= '' and ARGV[4] == '1' then redis.pcall('SPUBLISH', ARGV[3], 'revoke\t' .. ARGV[2]) end
if ARGV[3] ~= '' and ARGV[4] ~= '1' then redis.pcall('PUBLISH', ARGV[3], 'revoke\t' .. ARGV[2]) end
grant('', false)
return 1
