// Package fence refuses the writes of lock holders that are too late.
//
// A process can be suspended between its last look at its lease and its write. When it wakes,
// another process may hold the lock, and no lock service can stop the write any more: only the
// resource can. So every acquisition has a fencing token, larger than those of all earlier
// acquisitions of the name. The holder sends it along with each write, and the resource remembers
// the newest it has seen and refuses smaller ones.
//
// The check must be made where the write is made, as one step with it. Pick the guard by where that
// is:
//
//	a database          package fencesql, in the transaction of the write
//	Redis               package fenceredis, in the script that writes
//	an HTTP service     package fencehttp, around the handler
//	memory, files       Marks, in the one process that writes
//
// All of them refuse with a [*StaleError]. Nothing here imports a Redis client, so a service that
// only checks tokens carries none.
package fence

// Lease is what a guard asks of a lease; *redlatch.Lease is one.
type Lease interface {
	Name() string // of the lock
	Token() int64 // 0 once the lease is not held
}
