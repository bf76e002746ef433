// Package quorum treats several independent Redis servers, its nodes, as one: what a majority of
// them says counts. A node may vote only while it cannot have forgotten anything:
//
//	                   the server is restarted, or its keys are deleted
//	+---------+                                               +-----------------+
//	|  votes  | --------------------------------------------> |     forgot      | <-- a new node
//	+---------+                                               +-----------------+
//	     ^                                                             |
//	     | it counts on from the                a client asked all nodes: the
//	     | largest number of the others         rest is the longest time that
//	     |                                      a vote of any node binds it
//	     |                                                             |
//	     |   +------------------------+                                v
//	     |   | a client asks the      |    the time has passed +----------------+
//	     +---| others what they know: | <--------------------- |    at rest     |
//	         | a majority of them     |                        +----------------+
//	         | votes, or all answer   |
//	         +------------------------+
//
//	All nodes answered, and none ever voted: the quorum is new, and the rest takes no time.
//
// Programs see a node at rest as redlatch.NodeRests, and a node whose rest has ended as
// redlatch.NodeRested.
//
// [Epochs] takes the nodes through these states, whenever an acquisition meets a node without a
// vote. [Conn] sends a call to all nodes, and returns what a majority answered.
//
// # Why a rest
//
// The right to vote belongs to one run of the server process, and is kept in Redis. A process that
// finds the right of another run, or none, does not know what it has forgotten. If it voted at once
// it could let a second owner in: one node is enough to turn one owner's majority into a new
// owner's. After the rest, everything that it forgot has ended: leases have expired, and
// acquisitions that counted on its vote have ended, too.
//
// # Why the others are asked after the rest, and not before
//
// The node may have voted for an acquisition that is still under way. Let A, B and C be the nodes,
// all of which know 7 as the last number of a lock:
//
//   - B lets X in with number 8, and restarts with its data from before. X's request to A is still
//     on its way.
//   - If A and C were asked now, they would say 7, and B would count on from there.
//   - A lets X in with number 8. A majority gave 8, so that is the token of X. X releases.
//   - B's rest ends, and it votes: it lets Y in with number 8. So does C, which has never
//     heard of X. A majority gave 8, so that is the token of Y, too.
//
// When the rest ends, the acquisition of X has ended, too: either A knows 8, and says so, or X
// never got a token. spec/quorum.pml has both rules, and finds such a run if either is left out.
//
// # Why nodes of a new quorum need no rest
//
// None of them ever voted, so none has anything to forget. All of them must have answered, since
// a silent node may know better. And all must have begun their rest before the first gets the
// right, so that a node that later claims never to have voted must have lost its data. A node with
// a rest of zero counts as new, even to a client that comes when others vote already.
//
// # If too many forgot
//
// If fewer than a majority of the other nodes vote, more was lost than a quorum can tolerate, and
// perhaps none of them knows the largest token. Then all nodes must answer, and their clocks count
// as numbers: the number of a new name is not below the clock of the node that gave it.
//
//	conn.go       a call to all nodes, its answer, and how many are a majority
//	courier.go    the way to one node
//	majority.go   what a majority answered, and when a "no" is sure
//	epochs.go     which nodes vote
//	subscribe.go  messages of all nodes
//	lazy.go       nodes that could not be dialed yet
//	flights.go    goroutines that Close waits for
package quorum
