-- Runs each command of ARGV with as many arguments as it takes, all of them KEYS[1], which is not in
-- use. What else may be wrong with the arguments does not matter.
--
-- Reply {those that are not permitted, those that the server does not know, why it refuses to write
--       or ''}

-- This comes first: a script that has written something may go on writing when memory is full.
local written = redis.pcall('set', KEYS[1], '', 'px', 1000)
redis.pcall('del', KEYS[1])
local refused, unknown = {}, {}
for _, name in ipairs(ARGV) do
  local args = name == 'pubsub' and {'numsub'} or {} -- rights are for a subcommand
  for n = 0, 5 do
    local reply = redis.pcall(name, unpack(args))
    local err = type(reply) == 'table' and reply.err or ''
    if not string.find(string.lower(err), 'wrong number of arg') then
      if string.find(err, "can't run this command") or string.find(err, "can't access") or string.find(err, 'NOPERM') or string.find(err, 'no permissions') then
        refused[#refused + 1] = name
      elseif n == 0 and string.find(err, 'Unknown Redis command') then -- else a subcommand is meant
        unknown[#unknown + 1] = name
      end
      break
    end
    args[n + 1] = KEYS[1]
  end
end
redis.pcall('del', KEYS[1])
return {refused, unknown, written.err or ''}
