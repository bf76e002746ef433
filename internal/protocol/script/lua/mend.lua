-- mend: take an owner in again that a majority of the other nodes has just confirmed. It makes up
-- for a restart of this node, so that a lease outlives restarts of all nodes, one after the other.
-- It also makes up for a vote that another attempt had, and that came to nothing.
--
-- It does nothing if another owner has the place, or may have had it since the owner was confirmed.
-- But attempts that failed have been counted here, too, and so have the owners of other slots. So
-- the holder asks first, and confirm tells how far this node has counted, if no other owner has the
-- place here. While the lease is held, none of these numbers is the token of a later owner: that
-- owner would have needed a node that still had this one.
--
-- It is tempting to let the owner in however far this node has counted, as its lease was confirmed.
-- But this request may come late, after the lease and others. With such requests at a majority, the
-- text of a lease that was detached could be adopted a second time, with its old token.
-- It is tempting, too, to have confirm tell its number while another owner has the place. But that
-- owner may get its lease by the vote of this node, later than this lease ends.
--
-- KEYS  K, fence, queue, clients (and last of all the epoch)
-- ARGV  fence ttl s, owner, ttl ms, param, bound ms, token, detail, number that
--       confirm told with a minus (0 if none)
-- Reply {1} if the owner is inside, else {0}; {-2, rest ms} as vote
-- Cost  8 to 12 commands; for a mutex

-- cold
local owner, ttl, token = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[6])
local right, bound = votes()
if not right then return no_right() end
if extend(owner, ttl) and agrees(owner, ARGV[7]) then return {1} end
if tonumber(redis.call('GET', FENCE) or 0) > math.max(token, tonumber(ARGV[8])) then return {0} end
if tonumber(ARGV[5]) > bound then redis.call('HSET', EPOCH, 'ttl', ARGV[5]) end
leave(owner, '') -- its own slot at rest, or the window of its run, keeps it out no more
local number = admit(owner, ttl, ARGV[4], 'inside')
if not (number and agrees(owner, ARGV[7])) then return {0} end
remember(math.max(number, token), tonumber(redis.call('HGET', EPOCH, 'high') or 0))
set_token(owner, token)
return {1}
