// Package process tests what becomes of locks when processes are killed, suspended or closed, hand
// a lease to another process, pass a mutex on inside, or have very much to do.
//
// # Which file is about which hazard
//
//	adopt     leases that go on in another process: two that have one, or none
//	allocs    a lock whose cost in memory grows
//	cost      bounds of what a crash or a suspended process costs the others
//	deadlock  processes and goroutines that wait for each other for ever; others taken for such
//	endurance  anything that grows in an hour, by a make target of its own
//	leak      keys and subscriptions that stay; Close that hangs
//	relay     the handoff within a process: a lease that is not extended meanwhile
//	scale     how much many processes send
package process
