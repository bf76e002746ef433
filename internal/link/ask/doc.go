// Package ask sends a request to Redis until it is answered.
//
//	Ask -----> one request ----- a reply ------------------------> the reply
//	             ^    |
//	             |    +--------- a permanent error --------------> the server's own error, or ErrWrongKind (errors.go)
//	             |    |
//	             |    +--------- no answer, or a transient error
//	             |                   |            |            |
//	             |              time is left   ctx is done   closing, or the time has passed
//	             |                   |            |            |
//	             +-- a pause --------+            v            v
//	                                         why ctx is    ErrUnreachable, and ErrClosed
//	                                         done          if it is closing
//
// Every script of redlatch may run twice, so a resend is always safe. Package batch sends the
// requests of many goroutines together. On a quorum, a request goes to all nodes, and package
// quorum counts the answers. Transient in base/retry/retry.go says which errors are worth a resend.
// A release that had no answer within RequestTimeout is resent by link/cleanup.
package ask
