// Package history records what workers ask of locks and what they believe, and finds in such records
// what locks must not do.
//
// Each worker is a process with a [Recorder]. It writes a line before each call and one after it, so
// a worker that is killed loses one line at most. Times are of a clock that all processes of the
// machine share ([Now]).
//
//	worker 1  acquire ........ granted  held ... held  release .. released
//	worker 2       acquire ............................................ granted  held
//	                                                                 ^ the call begins before, and
//	                                                                   returns after what it does
//
// A lease is believed held from after its first "yes" to before its last one ([Hold]). Both ends
// are on the safe side: two leases whose times of belief overlap were held at once, whatever the
// order of the steps in between. A call without an answer stays open forever.
//
// The checks ([Check]) sort once and look at each record once, so that a million acquisitions take
// seconds. Each describes the first bad pair in words.
package history
