// Package faults tries one server whose requests, replies, messages and connections are lost or
// late, that hangs, restarts empty, is full or refuses, and contexts that end at a bad moment.
//
// # Which file is about which hazard
//
//	ailing           the ailments of servers that history tests use
//	context          the schedule is late: contexts that seem alive after the deadline
//	countdown_fault  a countdown: lost and late requests, messages, processes and servers
//	cutshort         a context that ends just as Redis grants
//	direct           a request on the goroutine of its caller that outlasts its context
//	full             the server is out of memory, or its disk is full
//	hook             a hook that panics leaves a lock behind
//	kinds_fault      each kind: a newcomer overtakes a line, a client is closed, a key stays for ever
//	kinds_history    each kind: many faults at once; what the clients believed is checked afterwards
//	leftover         keys that outlive the last place in a lock, and keep clients out
//	losses           each request of each operation meets each mishap, by enumeration
//	lostreply        a reply is lost: locks held by no caller, or counted twice
//	outage           a waiter that is cut off is silent, or tells each request
//	quorum_history   a quorum: nodes and links fail; what the clients believed is checked afterwards
//	quorum_history_linux   the same while the clock of a node steps
//	refusal          servers that refuse: replicas, passwords, rights, keys of another type
//	renew            the watchdog: work that hangs, extends that create, releases too early
//	server           a server that is killed, emptied or hangs
//	silence          connections that die without a reset
//	straggler        requests that arrive when all is over
//	subscription     messages that are lost, and a server without publish/subscribe
//	undo             what is undone late undoes too much
package faults
