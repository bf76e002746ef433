// Package kinds tests what each kind of lock is for, and the options that change how it is held or
// waited for: bad input, order, and what is left behind.
//
// # Which file is about which hazard
//
//	countdown       a count that is counted twice, or waited for after its zero; what is gone taken for zero
//	election        an observer that misses a change; a leader that spins; a job that runs twice in its window
//	kinds           bad input, deadlocks with oneself, tokens that repeat, functions that run without the lock
//	line            a line that is forgotten while it is used, or full of the dead; a line longer than it may be
//	linger          a lock that its client keeps, though others want it; a holder that is not told of waiters
//	minhold         a lock that opens too early; a lease of its own length, shortened by what is late
//	multi           several names: deadlock, one of them taken or lost
//	reentrant       entries that are counted twice, or for ever; readers that starve writers, or die
//	semaphore       permits that are counted twice; a size that comes back; a search that costs more with the pool
package kinds
