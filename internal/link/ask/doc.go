// Package ask sends a request to Redis until it is answered.
//
//	Ask -----> one request ----- a reply ------------------------> the reply
//	             ^    |
//	             |    +--------- an error that stays ------------> the server's own error, or ErrWrongKind (errors.go)
//	             |    |
//	             |    +--------- no answer, or an error that may pass
//	             |                   |            |            |
//	             |              time is left   ctx is done   closing, or the time has passed
//	             |                   |            |            |
//	             +-- a pause --------+            v            v
//	                                         why ctx is    ErrUnreachable, and ErrClosed
//	                                         done          if it is closing
//
// Every script of redlatch may run twice, so a resend is always sound. Requests of many goroutines
// leave together: that is the business of package batch. On a quorum a request goes to all nodes,
// and package quorum counts.
package ask
