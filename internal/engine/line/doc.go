// Package line is a client's side of the line that Redis keeps for each lock: its places there, and
// the grants that come from them. Redis decides which waiter is next.
//
//	Add ------> waiting ----------> granted: a message, or the answer to a poll
//	             |  ^  \
//	    missing  |  |   \---------> failed: Redis says that it can never be
//	             v  | place again
//	           asking               Cancel ---> given back, also a grant that comes late
//
// Waiters for one lock share a poller, which asks for all of them: at each heartbeat, when the
// holder's lease could have run out, every 250 ms while the client cannot listen, and at once when
// it can again. So a lost message costs a heartbeat and nothing else.
//
//	line.go       what a place needs: the request, the ticket, the subscription
//	waiters.go    waiters and the pollers they share, until their wait ends
//	pace.go       when a poller asks Redis next
//	heed.go       hearing other libraries, while one of them holds the lock
//	grants.go     what Redis says of a waiter: granted, in line, or missing
//	restore.go    asking again for the place of a waiter that Redis does not list any more
//	poll.go       asking Redis for all waiters of a poller
//	askkeeper.go  asking the client that may only keep the lock
package line
