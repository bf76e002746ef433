// Package kinds tests what each kind of lock is for, and the options that change how it is held or
// waited for: bad input, order, and what is left behind.
//
// # Which file is about which hazard
//
//	countdown  a count that is given up, or waited for where none is; what is gone taken for zero
//	election   an observer that misses a change; a term that too few nodes tell; a job that runs again in its window
//	inside     what several hold: entries, readers and slots that wait or cost too long
//	kinds      bad input, a deadlock with oneself
//	line       a line that is full of the dead
//	linger     a lock that its client keeps, though others want it; a holder that is not told of waiters
//	minhold    a lock that opens too early; a lease of its own length, shortened by what is late
//	multi      several names: one of them lost, or out of time
package kinds
