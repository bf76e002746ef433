// Package help holds what the tests of all folders share: options, acquisitions on other
// goroutines, keys, and checks of what is left in Redis. What tests of other modules need as well,
// such as Open, Lock, Release and Eventually, is in internal/testkit/locktest.
//
//	client     options, acquisitions, their results
//	cluster    clusters, by their URL
//	cost       what a crash or a lost message costs the others
//	countdown  counts and their waiters
//	events     what the hook was told
//	full       a server without memory
//	guard      a resource that checks tokens, in memory
//	hearing    a client whose subscription is up
//	keys       the keys of a name and of a client
//	kinds      a lock of each kind
//	left       nothing is left but what outlives a lock on purpose
//	lost       what a lease says when it is lost
//	quorum     quorums
//	server     what a server says about itself
package help
