-- inspect: the holders and the line, at one moment. It changes nothing.
--
-- KEYS  K, fence, queue, clients (and after those of the kind the forced releases)
-- ARGV  1 to leave out the line (absent if not)
-- Reply {fence or '', remaining ms, {{owner, ms left, token, detail, resting}, ...},
--       {{ticket, arrival us, end ms, alive}, ...}, now us, {owner, note} of the last release by
--       force, or {}}; no owners if K is of another type; end: until when its client is believed
--       alive by its heartbeats, 0 if unknown; alive: 1 or 0
-- Cost  6 commands, and those of the kind; it reads all holders and, unless that is left out, the
--       whole line, and asks 3 commands for each client in line

-- cold
local ok, inside = pcall(holders)
local reason = not ok and (type(inside) == 'table' and inside.err or inside) -- text, by the server's version
if reason and not string.find(reason, 'WRONGTYPE', 1, true) then return redis.error_reply(reason) end
local line, waiting, ends = ARGV[1] and {} or redis.call('ZRANGE', QUEUE, 0, -1, 'WITHSCORES'), {}, {}
for i = 1, #line, 2 do
  local address = string.match(line[i], '^%u%l+\t([^\t]*)\t') or ''
  ends[address] = ends[address] or redis.call('ZSCORE', CLIENTS, address) or 0
  waiting[#waiting + 1] = {line[i], line[i + 1], ends[address], alive_for(line[i], '') > 0 and 1 or 0}
end
local last = redis.call('HGET', FORCED, 'last')
local forced = last and {last, redis.call('HGET', FORCED, 'of ' .. last) or ''} or {}
return {redis.call('GET', FENCE) or '', redis.call('PTTL', K), ok and inside or {}, waiting, now(), forced}
