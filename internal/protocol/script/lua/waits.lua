-- waits: read which acquisitions of a client wait under a lease. It changes nothing.
--
-- KEYS  notes of the client
-- ARGV  none
-- Reply {owner, note, owner, note, ...}; notes of other acquisitions are left out
-- Cost  1 command, which reads all notes

local notes, waits = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #notes, 2 do
  if string.sub(notes[i + 1], 1, 1) == 'w' then
    waits[#waits + 1] = notes[i]
    waits[#waits + 1] = notes[i + 1]
  end
end
return waits
