-- vote: ask one node of a quorum for the latch. Sent twice, it means one: the second finds the
-- owner inside.
--
-- KEYS  K, fence, queue, clients (and last of all the epoch)
-- ARGV  fence ttl s, owner, ttl ms, param, bound ms (how long the vote binds the node at most),
--       again (1: leave first), ticket ('' to not wait), address, live for ms, waited us
-- Reply {1, number, detail}                   inside
--       {0, remaining ms, holder or '', rank} not inside; with a ticket: in line, behind so many;
--                                             holder: for a job whose run is known to have taken
--                                             place, 'window'
--       {-1, reason}                          not inside, and waiting cannot help
--       {-2, rest ms}                         no right to vote; 0: a client must restore it
-- Cost  6 commands if it is free, 11 to 16 if not; for a mutex

local owner, ttl, ticket = ARGV[2], tonumber(ARGV[3]), ARGV[7]
local right, bound = votes()
local token, detail
local function enter(waited)
  if tonumber(ARGV[5]) > bound then redis.call('HSET', EPOCH, 'ttl', ARGV[5]) end
  token, detail = admit(owner, ttl, ARGV[4], waited)
  return token and {1, token, detail}
end

if right and redis.call('EXISTS', QUEUE) == 0 and ARGV[6] == '0' and enter() then return {1, token, detail} end

-- cold
if not right then return no_right() end
-- A slot that is not below the least one asked for is of this round or a later one: the request
-- comes late, or again. If the owner left it here, another owner could have it, with the nodes that
-- never gave it to this owner.
if ARGV[6] == '1' then
  local _, slot = granted(owner)
  if slot and tonumber(slot) < tonumber(string.match(ARGV[4], '^%d+:%d+:(%d+)')) then leave(owner, '') end
end
-- A caller without a ticket does not overtake. A caller with a ticket may try whatever its place:
-- the first in line may not reach the other nodes.
local function waited_for()
  local first, unfinished = head('')
  if not first and not unfinished then tidy() end
  return first or unfinished
end
-- What keeps newcomers out, such as another size, does not keep out a waiter that has a place here.
local function enter_waiting()
  return enter() or detail and ticket ~= '' and redis.call('ZSCORE', QUEUE, ticket) and enter(true)
end
if (ticket ~= '' or not waited_for()) and enter_waiting() then
  if redis.call('ZREM', QUEUE, ticket) == 1 and redis.call('EXISTS', QUEUE) == 0 then redis.call('DEL', CLIENTS) end
  return {1, token, detail}
end
if extend(owner, ttl) then return inside_reply(owner) end
if detail then return {-1, detail} end
if ticket ~= '' then
  -- The score orders tickets by how long their attempts have waited, also one that is new here.
  redis.call('ZADD', QUEUE, now() - ARGV[10], ticket)
  local kept = redis.pcall('PEXPIRE', QUEUE, LINE_TTL)
  if type(kept) == 'table' then -- a user that may not run it must not leave a line for ever
    redis.call('ZREM', QUEUE, ticket)
    return kept
  end
  mark_alive(ARGV[8], ARGV[9])
  redis.call('PEXPIRE', CLIENTS, LINE_TTL)
end
local first = holders(1)[1]
local holder = first and first[1] or ''
-- It is tempting to name the window of a job, which is free first if it is shorter than the lease.
-- But each of three nodes may have let in another owner. Then two of them seem to name the same one,
-- and all three owners give up: none runs the job. An owner whose lease has ended here may be an
-- earlier one of the same attempt, so it is named until it is known that its run took place.
if KIND == 'job' and holder == 'window' then
  holder = redis.call('HGET', INSIDE, 'window') or holder
end
return {0, remaining(), holder, redis.call('ZRANK', QUEUE, ticket) or 0}
