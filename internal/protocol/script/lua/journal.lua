-- journal: note what happened, in a stream that is bounded in length and age.
--
-- An event is a JSON object. Its fields, left out if they do not apply: id (client id and a number;
-- two entries with the same id are one event), what (redlatch help log lists the values), ago_ms
-- (its age when it was written), name, kind, owner, token, client, host, pid, program, labels,
-- reason, text, value, from (client, host, pid and program of a holder), waited_ms, held_ms,
-- remaining_ms, dropped (how many events of that client are missing before it).
--
-- KEYS  journal
-- ARGV  most (entries, or a few more), age ms (of the oldest entry), then for each event: event
-- Reply how many were noted
-- Cost  a command for each event, and 3

for i = 3, #ARGV do redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'event', ARGV[i]) end
local lasts = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
if type(lasts) == 'table' then -- a user that may not run it must not leave a journal for ever
  if redis.call('PTTL', KEYS[1]) < 0 then redis.call('DEL', KEYS[1]) end
  return lasts
end
local t = redis.call('TIME')
-- Servers before 6.2 do not know MINID: there the length is the only bound of a journal that is in
-- use.
redis.pcall('XTRIM', KEYS[1], 'MINID', '~', string.format('%.0f', t[1] * 1000 + math.floor(t[2] / 1000) - ARGV[2]))
return #ARGV - 2
