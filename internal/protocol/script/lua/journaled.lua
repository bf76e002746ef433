-- journaled: read a page of what happened. It changes nothing.
--
-- KEYS  journal
-- ARGV  order (XRANGE, or XREVRANGE for the newest first), from, to (ids of the stream, in that
--       order), most
-- Reply {{id, event}, ...}
-- Cost  1 command

local page
if ARGV[1] == 'XREVRANGE' then
  page = redis.call('XREVRANGE', KEYS[1], ARGV[2], ARGV[3], 'COUNT', ARGV[4])
else
  page = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[3], 'COUNT', ARGV[4])
end
local found = {}
for i, entry in ipairs(page) do found[i] = {entry[1], entry[2][2]} end
return found
