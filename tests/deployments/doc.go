// Package deployments tests deployments of more than one server: a cluster, a master with replicas
// and sentinels, and a quorum, each with nodes that die, forget, are slow or cut off.
//
// # Which file is about which hazard
//
//	cluster             cluster: a master dies, slots move all the time, waiting for many names over few connections, messages that go to every node; a client that keeps locks
//	cluster_part        List where a master is dead, or a slot has no node
//	failover            a replica is promoted: it may lack the lock, and its clock differs
//	overlap             how often two hold at once when a deployment fails; the table in guarantees.md
//	overlap_linux       the same, when the clock of a server is set
//	quorum              quorum: several names; what it refuses
//	quorum_burst        quorum: more acquisitions or releases at once than the nodes can answer in the time of a request
//	quorum_cost         quorum: requests that are needless, also to a node that is down for long
//	quorum_fault        quorum: nodes that die, forget, are slow or cut off; votes that cross a release
//	quorum_refusal      quorum: a wait that ends in mid-round; servers that cannot be nodes; what Nodes tells of them
//	quorum_tie          quorum: ties that look like a lock that is held; own requests that keep an attempt out
package deployments
