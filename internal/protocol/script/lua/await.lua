-- await: the heartbeat of a client that waits, once for all its tickets on this latch. It says that
-- the client is alive, grants the latch to the next in line if there is room, and replies how each
-- ticket stands. A lease that turns out to be granted starts anew with its full TTL. A ticket whose
-- owner is inside by now is let in past the line.
--
-- A ticket that is missing is not put back. This request may have been on its way for long, and the
-- owner may have been in and out since.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s, address, live for ms, then for each ticket: ticket
-- Reply {remaining ms, foreign, ahead, occupant, fence, then for each ticket: one of the following};
--       ahead: how many are before the first of them; fence: the last token of the name, 0 if there
--       is none. A message that grants one of the tickets in line has a larger one, or is an old one
--         {1, token, detail} inside
--         {0}                in line
--         {}                 neither
-- Cost  about 12 commands, and 2 for each ticket; for a mutex

-- cold
local address = ARGV[2]

-- PEXPIRE comes first: a server that is out of memory allows it, and ZADD after it. If the line is
-- empty, this request comes late: holders must not be told that its client waits.
if keep_line() then
  mark_alive(address, ARGV[3])
  stay(LINE_TTL)
end
local unfinished = grant(address, true)

local reply, ahead = {0, 0, 0, '', 0}, -1
for i = 4, #ARGV do
  local ttl, param, owner = string.match(ARGV[i], '^%u%l+\t[^\t]*\t(%d+)\t([^\t]*)\t(.*)$')
  local rank = redis.call('ZRANK', QUEUE, ARGV[i])
  -- It may belong to an owner that came in after it took its place in line, and that waits for it:
  -- those before it would wait for ever.
  local token, detail
  if rank then token, detail = join(owner, tonumber(ttl), param) end
  if token then
    redis.call('ZREM', QUEUE, ARGV[i])
    reply[#reply + 1] = {1, token, detail}
  elseif rank then
    if ahead < 0 or rank < ahead then ahead = rank end
    reply[#reply + 1] = {0}
  else
    reply[#reply + 1] = extend(owner, tonumber(ttl)) and inside_reply(owner) or {}
  end
end
reply[1], reply[2], reply[3], reply[4] = remaining(), foreign() and 1 or 0, ahead, occupant()
reply[5] = tonumber(redis.call('GET', FENCE) or 0)
if yielding then
  reply[3] = ahead - 1
  if reply[1] == -2 then reply[1] = yielding end
end
-- As for the first in line behind a lease that has expired: ask again at once.
if unfinished then reply[1], reply[3] = 0, 0 end
return reply
