// Package lease is when a lease is held, and how it ends. It knows what Redis has confirmed, and until
// when. How a lock is acquired is for others.
//
//	                        extended
//	                 .--------------------.
//	                 v                    |
//	Begin ------>  held ---------> in jeopardy
//	                 |   extend           |
//	                 |   failed           |
//	                 +---------+----------+
//	                           |
//	          .----------------+----------------.
//	          | Release begins                  | the deadline has passed
//	          v                                 | an extend: Redis says that it is gone
//	        ended ---------------------------> lost
//	          |   Redis says that it was gone
//	          |   already
//	          | Redis confirms, or it is passed on
//	          v
//	       released
//
// A [Keeper] has the leases of one client. It extends them in batches, and finds the one that a
// message is about. A [Lease] is begun by [Keeper.Begin], from a grant. docs/architecture.md has
// the table of all transitions.
//
//	keeper.go    the leases of a client, and what they need
//	lease.go     a lease, its state and its deadline, and what is told of it
//	watchdog.go  extending what is due, and what comes of an extend
//	extend.go    lengths, and extending for the program
//	release.go   releasing, losing and detaching
//	pass.go      passing the lock on to the next goroutine of this client
//	votes.go     votes of a quorum that come while it is held
//	again.go     releasing again what a server that took over does not know
//	nest.go      entries of an owner that are one in Redis
//	linger.go    keeping the lock for the client's next acquisition
//	wanted.go    telling the holder that it is waited for
//	context.go   a lease as the context of its work
package lease
