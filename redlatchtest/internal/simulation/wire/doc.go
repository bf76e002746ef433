// Package wire simulates servers, and the network between them and clients, in virtual time.
//
//	Link ---- Network ---- Server       requests, replies and messages under way
//	  ^          ^            ^
//	states    one goroutine   hangs, dies, comes back; its clock drifts
//
// All of it belongs to the network's goroutine, which does one thing at a time and waits until all
// that it causes is done. A client has a [Link] to each server, or a [Cluster] of them.
package wire
