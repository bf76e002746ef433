-- recall: read the record of a client, whether the client listens here, and its notes on some of
-- its acquisitions.
--
-- KEYS  record of the client, its notes
-- ARGV  address of the client: its channel, then for each owner: owner (or, alone, * for all that
--       have notes)
-- Reply {the text, or '' if there is none, ms until it expires, listeners to the channel,
--       {for each owner its note, or ''}}; -1 listeners if the caller may not ask; for * owners and
--       their notes by turns
-- Cost  3 commands, and one if there are owners

local listeners = redis.pcall('PUBSUB', 'NUMSUB', ARGV[1])
local notes = {}
if ARGV[2] == '*' then
  notes = redis.call('HGETALL', KEYS[2])
elseif ARGV[2] then
  for i, note in ipairs(redis.call('HMGET', KEYS[2], unpack(ARGV, 2))) do notes[i] = note or '' end
end
return {redis.call('GET', KEYS[1]) or '', redis.call('PTTL', KEYS[1]), listeners.err and -1 or tonumber(listeners[2]), notes}
