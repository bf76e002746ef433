-- raise: make a number the token of an owner inside, and the least from which this node counts on.
-- Sent twice, it means one. For an owner that is not inside it does nothing: another owner may have
-- come in since, with a smaller number.
--
-- KEYS  K, fence, queue, clients (and last of all the epoch)
-- ARGV  fence ttl s, owner, ttl ms, token, detail (what a majority gave it)
-- Reply 1 if the owner is inside, with that detail, else 0
-- Cost  5 commands; for a mutex

-- cold
if not (extend(ARGV[2], tonumber(ARGV[3])) and agrees(ARGV[2], ARGV[5])) then return 0 end
local token, high = tonumber(ARGV[4]), tonumber(redis.call('HGET', EPOCH, 'high') or 0)
if token > tonumber(redis.call('GET', FENCE) or 0) then remember(token, high) end
set_token(ARGV[2], token)
return 1
