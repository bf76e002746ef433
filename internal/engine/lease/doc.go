// Package lease keeps track of whether a lease is still held, and how it ends: what Redis has
// confirmed, and until when. Package acquire begins leases.
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
// Three files are the lease itself. They use needs.go, pace.go, oldcopy.go and around.go, and none
// of the others:
//
//	lease.go     a lease, its state and its deadline, whether it is extended at all (MaxHold), when it
//	             is lost, and until when it is released again
//	nest.go      entries of one owner, which share one hold in Redis
//	keeper.go    the leases of a client, found by owner
//
// The others are what is done with it:
//
//	extend.go    extending for the program, and what an extend changes
//	watchdog.go  sending the extends that are due
//	pace.go      when a lease is extended next
//	release.go   releasing
//	detach.go    leaving a lease to another process
//	pass.go      passing the lock on to the next goroutine of this client
//	linger.go    keeping the lock for the client's next acquisition, until another client asks for it
//	reentry.go   beginning a lease of an owner that is inside
//	gone.go      why Redis no longer has a lease (whyGone); force, and the end of the client
//	votes.go     votes of a quorum that come while it is held
//	wanted.go    telling the holder that it is waited for
//	stray.go     telling of leases that are held without need
//	context.go   a lease as the context of its work
//	around.go    the caller's context, around that of a lease
//	oldcopy.go   releasing again when a server came back with an older copy of the data
//	needs.go     what leases use, and the request that releases one (MinHold)
//	errors.go    the errors that say so
package lease
