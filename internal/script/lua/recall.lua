-- recall: read the record of a client, and whether the client listens here.
--
-- KEYS  record of the client
-- ARGV  address of the client: its channel
-- Reply {the text, or '' if there is none, ms until it expires, listeners to the channel}; -1 listeners if the caller may not ask
-- Cost  3 commands

local heard = redis.pcall('PUBSUB', 'NUMSUB', ARGV[1])
return {redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]), heard.err and -1 or tonumber(heard[2])}
