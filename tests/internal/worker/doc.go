// Package worker runs processes that hold locks, wait for them and write under them, to be killed
// and suspended. Such a process is the test's own binary, whose TestMain calls Main.
//
//	worker    the processes, and their jobs
//	rooms     locks that have room for another beside a holder
//	resource  what a lock protects, and a holder that writes late
package worker
