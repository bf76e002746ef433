// Package handoff is the queue in which goroutines of one client wait for the same mutex. It asks
// Redis nothing, and knows no leases.
//
// The goroutines that want one mutex are a [Group]. A group has one turn: the right to acquire the
// mutex from Redis for the group, or to hold it, and the duty to let the group go on afterwards.
// The first goroutine has the turn at once; the others wait for it.
//
//	   first Join      later Joins
//	        |               |
//	        |               v
//	        |         +-----------+
//	        |         |  waiting  |---- Withdraw ----> out of the group
//	        |         +-----------+
//	        |               |  gets the turn: Acquire or Take
//	        v               v
//	+-------------------------------------+
//	| a goroutine, or its lease: has the  |----+
//	| turn, and acquires or holds         |    |  1. attach: a lease has the turn until it ends,
//	|                                     |<---+             then 2 or 4
//	+-------------------------------------+
//	      |               |           |
//	      | 2. Next       |           | 4. Pop, then HandOver
//	      v               |           v
//	the first in the      |      the first in the queue
//	queue acquires        |      holds what the baton says
//	                      |
//	                      | 3. Dissolve
//	                      v
//	the group ends; all that wait acquire for themselves (Alone)
//
// # The invariant
//
// From the first Join until the group ends, exactly one turn of the group is outstanding. Each turn
// goes on in exactly one of four ways:
//
//  1. attach: the lease that was acquired takes the turn along. That is the caller's own record,
//     which the queue does not see.
//  2. Next: the first in the queue has the turn and acquires the mutex from Redis. If no goroutine
//     waits, the group ends.
//  3. Dissolve: the group ends, and all that wait acquire the mutex for themselves.
//  4. passed on: Pop takes the first out of the queue, and HandOver gives the turn to it, with the
//     baton. In between, the turn is that of the caller of Pop. If Pop returns nil, the turn is
//     still where it was, and goes on by 2.
//
// If a turn went on in none, the waiters would hang forever. If it went on in two, two goroutines
// would share one grant, or both would ask Redis for it.
//
// A panic in the program's code is the one exception. The goroutine then does not know how far it
// got, and calls Dissolve whatever became of its turn. That is safe: for a group that has ended,
// Next, Pop and Dissolve do nothing, also if a new group has begun for the mutex, and a goroutine
// that still has a turn of the old group acquires from Redis like any other.
//
// A goroutine that stops waiting calls Withdraw. If that reports false, the turn was just given to
// it, or is about to be: then the goroutine receives it and lets it go on like any other.
//
// A goroutine that acquires takes tokens for those behind it: at most maxRun goroutines in a row
// have the mutex (queue.go). When the tokens are spent, the lease goes back to Redis and other
// processes have their turn.
//
// # Locks
//
// The mutex of a [Queue] guards the map of groups, the waiters of all groups and the owners whose
// mutex was taken by force. It is a leaf: the queue calls nothing and locks nothing under it, so
// that its methods may be called under any other lock. Turns are sent under it, too. That never
// blocks, since the channel of a waiter has room for one turn, and a waiter is taken out of the
// queue before it gets one.
package handoff
