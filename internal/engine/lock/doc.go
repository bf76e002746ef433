// Package lock defines the types that the parts of the engine share. What a program reads and writes
// is the root's: its options become a [Lock] once, where they are given.
//
//	Lock     what can be held: a name with a kind, of a client, and the Terms of holding it (lock.go,
//	         with Drift, the margin of all deadlines)
//	Grant    an acquisition as Redis made it. It becomes a lease, or is given back (grant.go)
//	Undo     releases in the background what no goroutine wants (undo.go)
//	Event    what is told, and the steps to a new field (event.go); text.go: a detached lease
package lock
