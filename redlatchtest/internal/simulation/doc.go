// Package simulation runs whole clients against servers in memory, over a network driven by a seed,
// in virtual time. Minutes of faults take milliseconds, and a world that failed can be run again,
// step by step.
//
//	seed --> plan: harm, servers, clients, roles, times
//
//	 client A0          client B0         ...          the library as it is, over conn.Conn
//	   actor  actor       actor
//	     |      |           |
//	   Link --- Link ----- Link                        hand letters in
//	     \       |        /
//	      network (one goroutine)  <--- faults         delays, loses, cuts, stalls, reorders
//	     /       |        \
//	 server 1  server 2  server 3                      package memory: clocks of their own, copies, refusals
//	     |
//	   history, hook, story  --->  checks
//
// Package wire has the network with its links and servers, package world what runs and checks a world,
// and package scenes what the actors play. The test here draws the seeds.
//
// # A world
//
// A world is what one seed describes. Clients live one after the other in some slots; each
// has actors that play roles: they lock, try, wait, give up, extend, detach, adopt, force, count down.
// Some clients end by Close, some are killed, with or without the server's notice, and some are
// suspended. The harm of a world says which faults there are:
//
//	calm     none: times are judged, too, since they are virtual
//	crashes  clients die or stand still
//	storms   requests, replies, messages and connections are lost or late; servers hang, restart
//	         with their data, refuse writes, forget scripts; servers' clocks are set back and drift
//	losses   also what takes exclusion away for a while: lost data, old copies, deleted keys, clocks
//	         that are set ahead, locks that are taken by force
//
// In a quorum, faults usually hit only a minority of the nodes at a time. In a cluster they hit one
// node, which has a third of the slots (scenes/apart.go).
//
// All clients have the clock of the bubble, so the servers' clocks drift instead, by nearly one in a
// hundred at most, as docs/guarantees.md allows. Steps of a client's own clock are in the library's
// own tests, which give it another clock.
//
// There are two sorts of roles. A world has one or two crowds, in which many actors share names:
// these cost the most. And it has six to ten scenes. In a scene, an actor has partners, its own
// clients with their own names, and brings them to a state that chance rarely reaches: one request
// gets lost or late, a partner dies, hears nothing, or lacks a right. If a scene must not affect
// other actors, it has its own servers (scenes/forgetful.go, scenes/undone.go).
//
// # What is checked
//
//   - The history of what actors did and believed: internal/testkit/verify/history, as for
//     `redlatch verify`. No two inside, permits, readers, slots and their rests, windows of jobs,
//     tokens, and writes that a resource takes.
//   - What a client believes compared with what the server knows, at the same instant: a lease that
//     is held is in Redis, and for longer than the client believes (world/truth.go).
//   - What the hook was told: each attempt and each lease has one end.
//   - Every call ends within its promise, and so does Close; an acquisition ends with its context, at the
//     same instant.
//   - In some worlds the program's hook panics at a step of any acquisition, which leaves nothing behind.
//   - Every key has an expiry at all times. When all is over, the first try gets each lock, and
//     only what must be remembered is left. The journal notes a long lease and a long wait once.
//   - In calm worlds: the next waiter in line hears of a release at once, no waiter is overtaken, a
//     holder is told of its waiters. Nearly all that scenes check is checked only there.
//
// # Running again
//
// The network's goroutine does one thing at a time, and waits until everything that follows from it
// is done. Letters that are handed in at one moment are sorted before any of them is looked at. No
// two actors begin at the same nanosecond. Each process runs one world at a time on one processor,
// with the random numbers of the library drawn from the seed, too. So a seed repeats its world up
// to the point where two runs diverge: goroutines that wait for the same instant run in a different
// order, and so do iterations over maps. On a busy machine, most worlds diverge at some point;
// their stories show where. So a seed that failed may have to be run a few times until it fails
// again. Its story of the first time is kept.
package simulation
