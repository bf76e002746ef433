// Package acquire turns a request for a lock into a lease: on one server, in the turn of a group of
// goroutines, over a quorum, for several names, or from a lease that was detached.
//
//	One --> attempt --+--> turns: goroutines of this client, one after the other --+
//	                  |                                                            v
//	                  +-------------------------> run: try, then wait in line ----> begin --> a lease
//	                  |                                                            ^
//	                  +--> quorum: rounds over all nodes of a quorum --------------+
//
// An attempt ends once: the hook is told that it was granted or failed. What it may have left in Redis
// is released in the background (undo.go in package lock lists by which call), even if a hook panics.
//
// A try takes 4/3 of RequestTimeout at most. If Redis is silent, func ask in link/ask/ask.go ends it;
// a second request has what is left of that time (func within, grant.go). If another client keeps the
// lock, see askFor in kept.go; over a quorum, func left in quorum.go.
//
//	acquirer.go  one acquisition, from its beginning to its end
//	turns.go     goroutines of this client that pass a mutex on among themselves
//	single.go    on one server: trying, waiting
//	kept.go      locks that this client keeps, and asking another client for one
//	quorum.go    rounds over all nodes of a quorum
//	late.go      traces of a round at the nodes, and votes that come too late
//	grant.go     from a grant to a lease, or back
//	attempt.go   what is known of an acquisition under way
//	errors.go    its errors: taken, out of time (MaxWait), too late, a round lost. The root fills in a
//	             TakenError (takenFor in latch.go), and words it (errors.go; Describe: inspect.go; the
//	             command: whoTook in cli/hold/run.go)
//	tell.go      what the hook is told of it, once
//	cycles.go    what is noted of a wait, and the refusal of one in a cycle, which waitgraph finds
//	             (a caller's own lease: checkDeadlock in the root's latch.go; of several clients: survey)
//	several.go   several names at once, or one after the other
//	reentry.go   an owner that is inside already
//	adopt.go     a lease that was detached
//	seize.go     a lock that is taken from its holder
//	needs.go     what acquiring uses, and what it is asked for
package acquire
