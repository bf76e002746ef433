-- record: note which process a client is, for operators that inspect.
--
-- KEYS  record of the client
-- ARGV  text ('' to forget it), ttl ms
-- Reply 1
-- Cost  1 command

if ARGV[1] == '' then
  redis.call('DEL', KEYS[1])
else
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return 1
