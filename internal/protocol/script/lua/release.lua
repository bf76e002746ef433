-- release: leave the latch, or the line, whichever the owner is in, and let in the next in line.
-- Sent twice, it means one.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s, owner, ticket ('' if it never was in line), begun (for the kind: 1, or '' for
--       an acquisition that is undone), token, hold ms (both absent or '' without a minimal hold),
--       channel, message, sharded (1 or 0; all three absent if no other library is to be told),
--       every, yield ms (both absent if the line never yields)
-- Reply 0 if the owner was not inside, and has no slot at rest, else 1 and the number of holds it has
--       left
-- Cost  3 commands if the line is empty, 13 to 15 with a hand-over, about 10 with a minimal hold;
--       for a mutex

local left = not ARGV[5] and leave(ARGV[2], ARGV[4])
if left and ARGV[3] == '' and redis.call('EXISTS', QUEUE) == 0 then return 1 + left end

-- cold
-- yield leaves the latch free for ms after every so many releases with waiters in line: other
-- libraries stand in no line, and would find it taken as long as there is one. The waiters stand
-- behind the ticket that yield puts at the head of the line. It has no client, and is dropped later
-- as that of a dead client. CLIENTS counts the releases, and goes with the line. The score of that
-- member is beyond any time, so it is not removed as that of a client.
local COUNT, FAR = 'releases', 4503599627370496 -- 2^52
local function yield(every, ms)
  if not head('') then return false end
  local n = tonumber(redis.call('ZSCORE', CLIENTS, COUNT) or FAR) + 1
  if n < FAR + every then
    redis.call('ZADD', CLIENTS, n, COUNT)
    return false
  end
  redis.call('ZADD', CLIENTS, FAR, COUNT, math.floor(now() / 1000) + ms, YIELD)
  redis.call('ZADD', QUEUE, 0, 'A' .. YIELD .. '\t' .. YIELD .. '\t' .. ms .. '\t\t')
  known['A' .. YIELD] = ms
  return true
end

-- A token tells when its lease began: it is the server's time in microseconds, or more if the clock
-- was set back. A place stays shut until a whole millisecond, and no shorter than asked for.
local ms = 0
if ARGV[5] == '' then
  left = leave(ARGV[2], ARGV[4])
elseif ARGV[5] then
  ms = math.min(ARGV[6] + 1, math.ceil(ARGV[5] / 1000) + ARGV[6] - math.floor(now() / 1000))
  if ms > 0 then left = shut(ARGV[2], ms) else left = leave(ARGV[2], ARGV[4]) end
end
local gone = ARGV[3] ~= '' and redis.call('ZREM', QUEUE, ARGV[3]) == 1
local yields = left == 0 and ARGV[10] and yield(tonumber(ARGV[10]), tonumber(ARGV[11]))
if left or gone then grant('', gone or yields or ms > 0) end
if left then announce(ARGV[7], ARGV[8], ARGV[9]) end
return left and 1 + left or 0
