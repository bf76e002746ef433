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
// A [Keeper] tracks the leases of one client. It extends them in batches, and finds the lease that
// a message is about. [Keeper.Begin] begins a [Lease] from a grant. docs/architecture.md has the
// table of all transitions.
//
// Three files are the lease itself. They use needs.go, pace.go, oldcopy.go and around.go, and none
// of the others:
//
//	lease.go     a lease, its state and deadline, whether it is extended (MaxHold), when it is
//	             lost, and how long its release is retried
//	nest.go      leases of one owner, which share one entry in Redis
//	keeper.go    the leases of a client, found by owner
//
// The other files are what is done with a lease:
//
//	extend.go    extending for the program, and what an extend changes
//	watchdog.go  sending the extends that are due
//	pace.go      when a lease is extended next
//	release.go   releasing. link/ask/ask.go resends it after errors that retry.Transient accepts;
//	             after RequestTimeout, link/cleanup does
//	detach.go    leaving a lease to another process
//	pass.go      passing the lock on to the next goroutine of this client
//	kept.go      keeping the lock for the client's next acquisition, until another client asks for it
//	reentry.go   beginning a lease of an owner that is inside already
//	gone.go      why Redis no longer has a lease (whyGone); forced loss, and closing the client
//	votes.go     votes of a quorum that arrive while the lease is held
//	wanted.go    telling the holder that a waiter wants the lock
//	stray.go     reporting leases that are held needlessly
//	context.go   a lease as the context of its work
//	around.go    the caller's context, around that of a lease
//	oldcopy.go   releasing again when a server came back with an older copy of the data
//	needs.go     what leases use, and the request that releases one (MinHold)
//	errors.go    the errors of a lease that was released or detached
package lease
