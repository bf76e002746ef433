-- recall: read the record of a client.
--
-- KEYS  record of the client
-- ARGV  none
-- Reply the text, or '' if there is none
-- Cost  1 command

return redis.call('GET', KEYS[1]) or ''
