// Package lock defines the types that the parts of the engine share. What a program reads and writes
// is the root's: its options become a [Lock] once, where they are given.
//
//	Lock     what can be held: a name with a kind, of a client, and the Terms of holding it
//	Grant    an acquisition as Redis made it. It becomes a lease, or is given back
//	Undo     releases in the background what no goroutine wants
package lock
