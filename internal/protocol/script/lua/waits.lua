-- waits: read which acquisitions of a client wait under a lease. It changes nothing.
--
-- KEYS  notes of the client
-- ARGV  none
-- Reply {owner, note, owner, note, ...}; notes of other acquisitions are left out
-- Cost  1 command, which reads all notes

local notes, waits = redis.pcall('HGETALL', KEYS[1]), {}
if notes.err then -- a key of another type tells nothing
  return string.find(notes.err, 'WRONGTYPE', 1, true) and waits or notes
end
for i = 1, #notes, 2 do
  if string.sub(notes[i + 1], 1, 1) == 'w' then
    waits[#waits + 1] = notes[i]
    waits[#waits + 1] = notes[i + 1]
  end
end
return waits
