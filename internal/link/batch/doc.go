// Package batch sends the requests of many goroutines to one server. The busier the program is, the
// fewer round trips and scripts each request costs.
//
//	Do --- few are under way, and no crowd? ------ yes ---> Direct: this request alone --->|
//	                       | no                                                            |
//	                     queue                                                             | server
//	                       |                                                               |
//	                     flush: up to maxInFlight requests ---> plan: one pipeline ------->|
//
// A request that finds few others under way is sent at once (see aloneOver). Otherwise, or while a
// batch of that many or more (a crowd) is under way, it is sent together with the requests of all
// goroutines that can run at that moment.
//
// It is tempting to let requests wait a while for others, or until one that is under way is
// answered. With a distant server, either would delay every request.
//
// A plan makes the pipeline. Operations of the same type on several mutexes become one script, a
// bundle:
//
//	calls      0 lock a    1 lock b    2 inspect c    3 lock d
//	pipeline   [ lock a, b and d ]     [ inspect c ]              members 0 1 3, and 2
//	results    [ yes, undecided, yes ] [ the reply ]
//	resend     [ lock b ]
//	outcomes   0 yes       1 its own   2 the reply    3 yes       in the order of the calls
//
// A bundle handles only simple cases: for example, it leaves undecided a mutex that another owner
// holds. Such a call is sent again, alone. So is every call of a bundle that the server refused:
// a script stops at the first error, and what it did before that stands. Those outcomes are marked
// Resent.
//
// For a cluster there are [Nodes]: a Sender for each node, none of which waits for another. Only
// calls for the same slot are bundled there.
//
//	sender.go   which requests are sent at once, and which together: maxInFlight
//	plan.go     which calls become one script: maxBundle
//	nodes.go    a sender for each node of a cluster
//	room.go     how many requests to a quorum are under way
//	timeout.go  a context with a deadline, without a timer as long as no code waits for it
//
// The package knows nothing about leases. A request may run twice, as all scripts of redlatch may.
package batch
