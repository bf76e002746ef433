-- ask: have the owner's client told that another wants the latch, as "asked", 1 or 0 for whether
-- the caller waits for an answer, and the owner. It is for an owner whose latch may be kept only:
-- its program is done with it, and its client gives it back. It changes nothing about the lease.
--
-- KEYS  K, fence, queue, clients (and after those of the kind)
-- ARGV  owner, address, again (1 if the caller asks until it has an answer, else 0)
-- Reply 0 the owner is not inside
--       1 its client is told
--       2 its program is inside, as its client has said with used.lua
--       3 its client does not listen at this server
-- Cost  4 commands; for a mutex

-- cold
if not extend(ARGV[1], 0) then return 0 end
local used = redis.call('ZSCORE', CLIENTS, 'used\t' .. ARGV[1])
if used and -used > math.floor(now() / 1000) then return 2 end
local hearers = redis.pcall('PUBLISH', ARGV[2], 'asked\t' .. ARGV[3] .. '\t' .. ARGV[1])
return hearers == 0 and 3 or 1
