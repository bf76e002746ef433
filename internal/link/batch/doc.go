// Package batch sends the requests of many goroutines to one server, and the busier the program is,
// the fewer round trips and scripts they cost.
//
//	Do --- few are under way, and no crowd? ------ yes ---> Direct: this request alone --->|
//	                       | no                                                            |
//	                     queue                                                             | server
//	                       |                                                               |
//	                     flush: up to maxInFlight requests ---> plan: one pipeline ------->|
//
// A request that finds few others under way leaves at once (see aloneOver). Else, and while a
// batch of so many is under way, it leaves together with the requests of all goroutines that can run
// at that moment.
//
// It is tempting to let requests wait for company for a while, or for one that is under way to come
// back. With a distant server, either would delay every request.
//
// A pipeline is made by a plan. Operations of the same sort on several mutexes become one script, a
// bundle:
//
//	calls      0 lock a    1 lock b    2 inspect c    3 lock d
//	pipeline   [ lock a, b and d ]     [ inspect c ]              members 0 1 3, and 2
//	results    [ yes, undecided, yes ] [ the reply ]
//	resend     [ lock b ]
//	outcomes   0 yes       1 its own   2 the reply    3 yes       in the order of the calls
//
// A bundle does only what is simple: it leaves undecided, say, a mutex that another owner holds.
// Such a call is made once more by itself. So is every call of a bundle that the server refused,
// since a script stops at the first error and what it did before stands: those outcomes are marked
// Resent.
//
// For a cluster there are [Nodes]: a Sender for each of its nodes, of which none waits for another.
// Only calls of one slot are bundled there.
//
//	sender.go   what leaves at once, and what together: maxInFlight
//	plan.go     what of it becomes one script: maxBundle
//	nodes.go    a sender for each node of a cluster
//	room.go     how many requests to a quorum are under way
//	timeout.go  a context with a deadline, without a timer as long as no code waits for it
//
// The package knows nothing of leases. A request may run twice, as all scripts of redlatch may.
package batch
