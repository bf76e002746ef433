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
local refused -- not for a key of another type, which tells nothing
local function read(...)
  local reply = redis.pcall(...)
  if type(reply) ~= 'table' or not reply.err then return reply end
  if not string.find(reply.err, 'WRONGTYPE', 1, true) then refused = reply end
  return {}
end

local record, notes = read('GET', KEYS[1]), {}
if ARGV[2] == '*' then
  notes = read('HGETALL', KEYS[2])
elseif ARGV[2] then
  local found = read('HMGET', KEYS[2], unpack(ARGV, 2))
  for i = 1, #ARGV - 1 do notes[i] = found[i] or '' end
end
if refused then return refused end
return {type(record) == 'string' and record or '', redis.call('PTTL', KEYS[1]), listeners.err and -1 or tonumber(listeners[2]), notes}
