// Package acquire goes from a wish to a lease: on one server, in the turn of a group of goroutines, over
// a quorum, of several names, or of a lease that was detached.
//
//	One --> attempt --+--> turns: goroutines of this client, one after the other --+
//	                  |                                                            v
//	                  +-------------------------> run: try, then wait in line ----> begin --> a lease
//	                  |                                                            ^
//	                  +--> contest: rounds over all nodes of a quorum -------------+
//
// An attempt has one end. It is told as granted or failed, and what it may have left in Redis is
// released in the background, also if a hook panics.
//
//	acquirer.go  what acquiring needs, and what it can be asked for
//	attempt.go   one acquisition on one server: trying, waiting
//	grant.go     from a grant to a lease, or back
//	turns.go     goroutines of this client that pass a mutex on among themselves
//	contest.go   rounds over a quorum
//	linger.go    locks that this client keeps, and asking another client for one
//	several.go   several names at once, or one after the other
//	adopt.go     a lease that was detached
//	seize.go     a lock that is taken from its holder
//	waits.go     what is noted of a wait, and cycles
//	tell.go      what is told of an attempt, once
package acquire
