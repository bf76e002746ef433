-- Kind rwmutex: many readers, or one writer. An owner inside may read as well, past the line. So a
-- reader enters again, and a writer that reads and then leaves as a writer has downgraded without a
-- gap. A writer in line keeps new readers out: acquire.lua admits no owner past a line, and grant in
-- line.lua lets in readers up to the first writer.
--
-- State  as in zset.lua; the attribute is the owner of the writer inside, or ''
-- Param  r to read, w to write, d to go from writing to reading; then the owner of a lease that the
--        caller has inside, or '', or # and how many tokens the acquisition takes, as a mutex does
-- Detail r or w

-- read_state returns whether K is a rwmutex or nothing, the writer inside or '', and how many
-- owners are inside. If K is of another kind, it returns false and that kind.
local function read_state()
  local kind, writer = mark()
  if not kind or kind ~= 'rwmutex' then return not kind, kind, 0 end
  sweep()
  local inside = redis.call('ZCARD', K) - 1
  if inside > 0 and writer ~= '' and not redis.call('ZSCORE', K, writer) then
    -- The writer died, and its own reading lives on.
    change_mark(kind, writer, '')
    writer = ''
  end
  return true, writer, inside
end

local function join(owner, ttl, param)
  local how, held = string.sub(param, 1, 1), string.sub(param, 2)
  if held == '' or not find(held) then return false, how == 'd' and 'gone' or nil end
  if how == 'w' then return false, 'deadlock' end
  return insert(owner, ttl, 'r', 0), 'r', true
end

local function admit(owner, ttl, param)
  local right, writer, inside = read_state()
  if not right then return false, 'kind\t' .. writer end
  if inside > 0 then
    if redis.call('ZSCORE', K, owner) then return false end
    local token, detail = join(owner, ttl, param)
    if token or detail then return token, detail, true end
  end
  local how = string.sub(param, 1, 1)
  if how == 'd' then return false, 'gone' end
  if inside > 0 and (how == 'w' or writer ~= '') then return false end
  if inside <= 0 then create('rwmutex', how == 'w' and owner or '') end
  local tokens = string.match(param, '^%l#(%d+)$')
  return insert(owner, ttl, how, 0, tokens and tonumber(tokens)), how, how == 'r'
end
admit = whole(admit)

local function leave(owner)
  if not find(owner) then return false end
  drop(owner)
  local kind, writer = mark()
  if writer == owner then change_mark(kind, writer, '') end
  return 0
end

-- cold
local KIND = 'rwmutex'
local ROOMY = true -- a writer that is next keeps out readers that could be let in

-- occupant returns a reader that its client may only keep, if there is one: a waiter asks for all of
-- those once it is told one.
local first_occupant = occupant
local function occupant()
  local kept = '~$'
  if met and not string.find(met, kept) then
    for _, owner in ipairs(redis.call('ZRANGE', K, 1, 200)) do
      if string.find(owner, kept) and find(owner) then return owner end
    end
  end
  return first_occupant()
end

local rename_hold = rename
local function rename(owner, successor)
  rename_hold(owner, successor)
  local kind, writer = mark()
  if writer == owner then change_mark(kind, writer, successor) end
end
