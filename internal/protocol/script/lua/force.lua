-- force: take the latch from an owner, or open what the owner left shut; tell its client; and let
-- in the next in line, which of a reentrant lock is told to ask. The token moves on in any case.
-- The process that took the latch is remembered for a while, for the owner that lost it and for
-- operators.
--
-- KEYS  K, fence, queue, clients (and after those of the kind the forced releases)
-- ARGV  fence ttl s, owner, address of the owner's client ('' if unknown), in a cluster also its
--       sharded channel for this name (else ''), what to remember, ttl ms of that, channel, message,
--       sharded (1 or 0; all three absent if no other library is to be told)
-- Reply 1 if the owner was inside or had left it shut, else 0
-- Cost  as release, and 6 or 7, in a cluster 1 more

-- cold
if not leave(ARGV[2]) and not open(ARGV[2]) then return 0 end
mint()
tell_forced(ARGV[2], ARGV[5], ARGV[6], ARGV[3], ARGV[4])
grant_or_wake()
announce(ARGV[7], ARGV[8], ARGV[9])
return 1
