-- The line: what every kind shares about waiting and granting.
--
-- A ticket is one waiter: mode and kind, address, ttl, arg and owner, separated by tabs. The address is the channel on which its client
-- listens. In mode H the grant must be heard: where PUBLISH counts no listener, the next in line is tried. In mode A it stands anyway, for
-- clients that listen at another node of a cluster, or cannot listen at all and ask instead. S and T are H and A for a sharded channel.

-- cold
local LINGER = 3600000 -- ms that a line stays which nobody comes back to

-- inside is the answer to an owner that turned out to be inside already: the token it has.
local function inside(owner)
  local token, got = pass(owner)
  return {1, token or mint(), got}
end

-- believe notes that a waiting client is alive for another horizon ms.
local function believe(address, horizon)
  redis.call('ZADD', CLIENTS, math.floor(now() / 1000) + horizon, address)
end

-- keep lets the line outlive this moment: without heartbeats it is gone after LINGER.
local function keep()
  redis.call('PEXPIRE', QUEUE, LINGER)
  redis.call('PEXPIRE', CLIENTS, LINGER)
end

-- tell_of publishes a grant, and returns how many hear it, or what went wrong.
local function tell_of(mode, address, message)
  if mode == 'S' or mode == 'T' then return redis.pcall('SPUBLISH', address, message) end
  return redis.pcall('PUBLISH', address, message)
end

-- grant lets in whoever is next in line, as many as there is room for, and tells each client. It passes over clients that are dead or
-- out of hearing, and over those that can never be let in: they miss their tickets at their next await, and ask again. The caller hears by
-- the reply, so it need not listen. Where the caller may not publish, grants stand as well, and are found by await.
-- A lease that is granted unasked is never longer than its client is believed alive, so a client that died in silence costs no more.
local function grant(caller, left_line)
  while true do
    local line = redis.call('ZRANGE', QUEUE, 0, 1)
    local ticket = line[1]
    if not ticket then
      if left_line then
        redis.call('DEL', CLIENTS)
        tidy()
      end
      return
    end
    local mode, address, ttl, arg, owner = string.match(ticket, '^(%u)%l+\t([^\t]*)\t(%d+)\t([^\t]*)\t(.*)$')
    local alive = address and tonumber(redis.call('ZSCORE', CLIENTS, address) or 0) - math.floor(now() / 1000) or 0
    local more = true
    if alive > 0 then
      local token, got, room = admit(owner, math.min(tonumber(ttl), alive), arg, true)
      if token then
        local heard = tell_of(mode, address, 'grant\t' .. string.format('%.0f', token) .. '\t' .. got .. '\t' .. owner)
        if heard ~= 0 or mode == 'A' or mode == 'T' or address == caller then
          more = room
        else
          leave(owner, '')
        end
      elseif not got then
        return
      end
    end
    redis.call('ZREM', QUEUE, ticket)
    left_line = true
    if not more and line[2] then return end
  end
end
