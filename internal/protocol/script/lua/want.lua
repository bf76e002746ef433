-- want: have the owner's client told when a waiter comes, as "wanted" and the owner, once. It says
-- so at once if one waits already. It changes nothing about the lease.
--
-- CLIENTS keeps the wish: "wanted", the address and the owner, separated by tabs, at a negative
-- score: the server's time in ms until which it is of use. See mark_alive.
--
-- KEYS  K, fence, queue, clients (and after those of the kind)
-- ARGV  owner, address, ms for which to remember it
-- Reply 1 if another waits, 0 if not, -1 if the owner is not inside
-- Cost  6 commands, 7 if there is no line yet; for a mutex

-- cold
if not extend(ARGV[1], 0) then return -1 end
local ms = math.floor(now() / 1000)
if redis.call('EXISTS', QUEUE) == 1 then
  local first, unfinished = head(ARGV[2])
  if first or unfinished then return 1 end
  tidy()
end
redis.call('ZREMRANGEBYSCORE', CLIENTS, -ms, 0)
keep_word('wanted\t' .. ARGV[2] .. '\t' .. ARGV[1], ms, ARGV[3])
return 0
