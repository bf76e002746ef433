-- note: note what single acquisitions of a client are for and wait for, for operators.
--
-- A note is a letter and a JSON object: w for a waiter that keeps a lease, else l. Its fields, left
-- out if empty: name and kind of the lock that is waited for; since, in ms by the client's clock;
-- holds, a list of name, kind, owner and token of the leases under whose context the waiter waits;
-- labels; callers, for how many goroutines it stands in line; kept, since when its client only
-- keeps it, in ms by that clock. A client writes a note 100 ms after it came up, deletes it as late
-- after its end, and writes all anew every minute. It keeps 1024.
--
-- KEYS  notes of the client
-- ARGV  ttl ms, anew (1: forget all others first), then for each owner: owner, note ('' to forget
--       it)
-- Reply 1
-- Cost  a command for each owner, and 1 or 2

if ARGV[2] == '1' then redis.call('DEL', KEYS[1]) end
for i = 3, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.pcall('HDEL', KEYS[1], ARGV[i]) -- a user that may not run it must not leave the others for ever
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
local lasts = redis.pcall('PEXPIRE', KEYS[1], ARGV[1])
if type(lasts) == 'table' then -- a user that may not run it must not leave notes for ever
  redis.call('DEL', KEYS[1])
  return lasts
end
return 1
