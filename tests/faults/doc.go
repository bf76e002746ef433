// Package faults tests one server whose requests, replies, messages and connections are lost or
// late, that hangs, restarts empty, is full or refuses, and contexts that end at a bad moment.
//
// # Which file is about which hazard
//
//	callbacks        code of the program that the library calls panics, or takes long
//	context          contexts that seem alive after the deadline, or end while a server is silent
//	countdown_fault  a countdown: lost and late requests, messages and servers
//	outage           waiters that are not told of an outage; slots that rest after one; connections that die without a reset
//	renew            extends that come late; replicas that are late; releases under a done context
//	server           a server that hangs, has an older copy, or refuses; keys that are not locks
//	straggler        requests that arrive when all is over; a late clean-up that undoes too much
//	subscription     messages that are lost, and a server without publish/subscribe
package faults
