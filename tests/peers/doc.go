// Package peers tests redlatch beside others at the same key: other libraries, no library, clients
// in other languages. The directories foreign and python have programs for that.
//
// # Which file is about which hazard
//
//	announce     waiters of other libraries that are not told, or kept out; tokens of two counters
//	interop      other libraries, and no library, at the same key
//	realclients  lock libraries of other languages, and a client in Python: two holders, or a waiter that is forgotten
//	vectors      a script that does what docs/vectors does not say
//
// # Helpers
//
//	help_neighbours  clients that follow the protocols of Redisson and Spring Integration
//	help_vectors     a state, a call of a script, and what they come to, as JSON
package peers
