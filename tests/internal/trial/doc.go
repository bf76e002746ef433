// Package trial tests faults by enumeration: each request of each operation of each kind of lock
// meets each mishap, in a trial of its own.
//
//	countdown  what trials of a countdown check
//	life       what happens in a trial: a lock's life, a hand-over, a wait that is given up, a job
//	subject    the kinds, and how each is acquired
//	trial      the course and its trials, and what they check
package trial
