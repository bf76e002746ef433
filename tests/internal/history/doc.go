// Package history records what the workers of a lock did and believed while something harmed them,
// and checks it afterwards.
//
//	history  workers, what they note, and the checks
package history
