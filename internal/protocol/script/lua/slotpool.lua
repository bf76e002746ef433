-- Kind slotpool: n numbered slots, the lowest free one first. A holder that vanishes leaves its
-- slot at rest for a while.
--
-- KEYS   also bits and last
-- State  as in zset.lua; the attribute is n. An owner's score is the end of its lease and the rest
--        after it.
--        BITS: a bitmap of the slots that are held or at rest.
--        LAST: a hash, i and an instance to the slot it had last, s and a slot to that instance.
-- Param  n as the caller knows it, ms of rest, least slot ('' if any), instance ('' if none),
--        separated by colons
-- Detail slot

local BITS, LAST = KEYS[6], KEYS[7]
together[3] = BITS

-- recount makes BITS anew from what the owners inside have. It was evicted, or INSIDE was.
local function recount()
  redis.call('DEL', BITS)
  local all = redis.call('HGETALL', INSIDE)
  for i = 1, #all, 2 do
    local slot = string.match(all[i + 1], '^%d+\t%d+\t(%d+)$')
    if slot and redis.call('ZSCORE', K, all[i]) then redis.call('SETBIT', BITS, slot, 1) end
  end
  redis.call('PEXPIRE', BITS, math.max(1, redis.call('PTTL', K)))
end

local function clear(slot)
  if redis.call('SETBIT', BITS, slot, 0) == 0 then recount() end
end

-- lowest returns the lowest free slot that is not below from.
local function lowest(from)
  while redis.call('GETBIT', BITS, from) == 1 do
    if from % 8 == 0 then return redis.call('BITPOS', BITS, 0, from / 8) end
    from = from + 1
  end
  return from
end

-- choose returns a free slot: the lowest that is not below from, if from is given; otherwise the
-- slot that the instance had last, if it is free; otherwise the lowest.
local function choose(instance, from, n)
  if from then return lowest(from) end
  local slot = instance ~= '' and tonumber(redis.call('HGET', LAST, 'i' .. instance))
  return slot and slot < n and redis.call('GETBIT', BITS, slot) == 0 and slot or redis.call('BITPOS', BITS, 0)
end

-- remember_slot keeps the slot of an instance for as long as tokens are kept, and for ms at least. It
-- forgets the slot that the instance had before, and the instance that had this slot before.
local function remember_slot(instance, slot, ms)
  if instance == '' then return end
  local before, other = redis.call('HGET', LAST, 'i' .. instance), redis.call('HGET', LAST, 's' .. slot)
  if before then redis.call('HDEL', LAST, 's' .. before) end
  if other then redis.call('HDEL', LAST, 'i' .. other) end
  redis.call('HSET', LAST, 'i' .. instance, slot, 's' .. slot, instance)
  redis.call('PEXPIRE', LAST, math.max(ARGV[1] * 1000, ms))
end

local function admit(owner, ttl, param, waited)
  local kind, size = mark()
  if kind and kind ~= 'slotpool' then return false, 'kind\t' .. kind end
  local n, rest, from, instance = string.match(param, '^(%d+):(%d+):(%d*):(.*)$')
  if size and size ~= n and not waited then return false, 'size\t' .. size end
  if kind then
    if redis.call('EXISTS', BITS) == 0 then recount() end
    sweep(clear, recount)
    if redis.call('ZSCORE', K, owner) then return false end
  else
    create('slotpool', n)
  end
  n, from = tonumber(size or n), tonumber(from)
  local slot = choose(instance, from, n)
  -- mend lets an owner in that had its slot before the pool became smaller.
  if slot >= n and not (waited == 'inside' and slot == from) then
    if made then redis.call('DEL', unpack(together)) end
    return false
  end
  redis.call('SETBIT', BITS, slot, 1)
  undo = function()
    redis.call('ZREM', K, owner)
    clear(slot)
    redis.pcall('HDEL', INSIDE, owner) -- last: it fails while the slot moves
  end
  local token = insert(owner, ttl, slot, tonumber(rest)) -- zset.lua adds the rest to the score
  remember_slot(instance, slot, ttl + rest)
  return token, tostring(slot), redis.call('BITPOS', BITS, 0) < n
end
admit = whole(admit)

-- extend also has the slots of instances be remembered while any is held, and for a day after that: an
-- instance may run for longer than tokens are kept.
local extend_hold, DAY = extend, 86400000
local function extend(owner, ttl, exactly)
  if not extend_hold(owner, ttl, exactly) then return false end
  local left = redis.call('PTTL', LAST)
  if left >= 0 and left < DAY then redis.call('PEXPIRE', LAST, DAY) end
  return true
end

-- leave also frees the slot that the owner has at rest: its program has released it, or never had
-- it. By force it does not: the holder may still be at work with the number.
local function leave(owner, begun)
  local token, _, slot = find(owner)
  if not token and begun and redis.call('ZSCORE', K, owner) then token, _, slot = record(owner) end
  if not token then return false end
  part(owner, function() clear(slot) end)
  drop(owner)
  return 0
end

-- cold
local KIND = 'slotpool'
local ROOMY = false

-- open leaves a slot at rest whose holder vanished, as leave does by force.
local function open()
  return false
end

-- vacant reports whether this owner could have that slot here: no other has it, or left it at rest.
local function vacant(owner, slot)
  local kind = mark()
  if kind and kind ~= 'slotpool' then return false end
  if redis.call('EXISTS', BITS) == 0 then recount() end
  sweep(clear, recount)
  local _, own = granted(owner)
  return own == slot or redis.call('GETBIT', BITS, slot) == 0
end

-- join lets no owner past the line, and none into it that knows another size, unless it had a place.
local function join(_, _, param, waited)
  local kind, size = mark()
  if kind and kind ~= 'slotpool' then return false, 'kind\t' .. kind end
  return false, size and not waited and size ~= string.match(param, '^(%d+):') and 'size\t' .. size or nil
end

local function resize(size)
  local kind, old = mark()
  if kind == 'slotpool' then change_mark(kind, old, size) end
  return kind or '', old or ''
end
