// Package trial tries faults by enumeration: each request of each operation of each kind of lock
// meets each mishap, in a trial of its own.
//
//	countdown  what trials of a countdown check
//	trial      the kinds, the mishaps and the trials
package trial
