// Package kinds tries what each kind of lock is for, and the options that change how it is held or
// waited for: bad input, order, models that random operations are compared with.
//
// # Which file is about which hazard
//
//	countdown       a count that is counted twice, or waited for after its zero; what is gone taken for zero
//	election        an observer that misses a change; a leader that spins, or hides an error
//	extend          a lease of its own length: shortened by what is late, kept from the watchdog
//	job             a job that runs twice in its window, or not at all
//	job_property    a job in a window: random runs, compared with a model (rapid)
//	kinds           all kinds: bad input, deadlocks with oneself
//	kinds_property  each kind: random operations, compared with a model (rapid)
//	line            order: newcomers that overtake, herds, waiters that poll
//	maxwaiters      a line longer than it may be; a place refused to a waiter that had it
//	minhold         a lock that opens too early, or is asked for too often
//	multi           several names: deadlock, one of them taken or lost
//	permits         permits that are free, and all of them at once: counted twice, or none
//	proclaim        a leader changes its value: lost, late, or told to no observer
//	reentrant       entries that are counted twice, or for ever
//	rwmutex         readers that starve writers, and the other way round; readers that die
//	semaphore       permits that expire one by one; a size that comes back
//	slotpool        a number that is given again too early; a search that costs more with the pool
//	token           tokens that repeat: FLUSHALL, restarts, expiries
//	trydo           a function that runs though the lock is taken; a try that keeps its lock
//	wanted          a holder that is not told that it is waited for, or told without a reason
package kinds
