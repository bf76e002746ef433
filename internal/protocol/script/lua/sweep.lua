-- sweep: drop the tickets of dead clients from the head of the line, by the rule of grant. If there
-- were any, let in the next in line, as the next request would; that of a reentrant lock is told to
-- ask. It drops no ticket of a living client and takes no lease away.
--
-- KEYS  K, fence, queue, clients
-- ARGV  fence ttl s
-- Reply the number of tickets that were dropped; if it is not 0, there may be more
-- Cost  3 commands if the first in line is alive, and 3 for each client that is dead; then a grant

-- cold
local first, more = head('')
local dropped = spent
if not more and (dropped > 0 or not first) then grant_or_wake(true) end
return dropped
