// Package ballot runs an acquisition across a quorum of independent servers: it asks all of them,
// counts their votes, and decides what to do next.
//
//	an attempt --- Ask ---> every node votes
//	    ^                        |
//	    |                      Round: clear, or its time has passed
//	    |                        |
//	    |         +--------------+---------------+
//	    |         |              |               |
//	    |      a lease     taken, or a tie   no majority answers
//	    |         |              |               |
//	    |         |            Decide: finish, try again, later, or join the lines of the nodes
//	    |         |              |
//	    +---------|--------------+
//	              v
//	     LeaveTo: later votes are handled in the background
//
// A [Contest] sends the requests, of a bounded number of rounds at a time. A [Round] collects
// votes, also those that arrive after it is decided. A [Tally] counts them, and says whether the attempt has won
// (tally.go). [Decide] is the policy of an attempt that has not, and has no state (step.go). The
// nodes wake [Waiters], which then try.
//
// Phase 1: every node is asked to let the owner in, and counts (mint in quorum_token.lua). The token is
// the largest count of a majority that did ([Tally.Token]). Phase 2: the token is written back
// (raise.lua), where the owner is still inside, to a majority; an owner that comes later meets one of
// these nodes and counts on from there. If a majority gave the same number in phase 1, that is its
// token, and phase 2 has nothing to do.
// spec/quorum.pml is the model of this.
package ballot
