-- countdown_down: count down by one, and tell the waiters when the count is zero. Sent twice, it
-- means one: the second finds its owner among what has counted. So does another request with the
-- same id in the same round; its owner is noted, too, or a copy of it that is late would count in the
-- next round. Below zero there is nothing.
--
-- KEYS  K, fence, queue, clients
-- ARGV  owner (of the request), id ('' if there is none)
-- Reply {1, count}    the count after it
--       {0}           there is no count
--       {-1, reason}  the name is of another kind
-- Cost  7 commands, 2 or 5 more with an id; at zero 2 more, and one for each client that waits

-- cold
local s, reason = state()
if reason then return {-1, reason} end
if not s then return {0} end
local owner, once = ARGV[1], ARGV[2] ~= '' and string.format('once\t%.0f\t%s', s.round, ARGV[2])
if redis.call('ZSCORE', K, owner) then return {1, s.left} end
if once and redis.call('ZSCORE', K, once) then
  note_repeat(owner)
  return {1, s.left}
end
-- PEXPIRE comes first: a server that is out of memory refuses a script whose first write could need
-- some.
redis.call('PEXPIRE', K, s.ms)
redis.call('ZADD', K, now(), owner)
if once then redis.call('ZADD', K, now(), once) end
if s.left == 0 then
  forget()
  return {1, 0}
end
s.left = s.left - 1
write(s)
if s.left == 0 then tell_zero(s.round) end
return {1, s.left}
