// Package tests tries redlatch from outside, on real redis-server processes and on servers in memory,
// with what can go wrong going wrong: replies that are lost or late, subscriptions that drop, processes
// that are killed or suspended, servers that hang, restart empty or refuse.
//
// It is a module of its own, so that what only tests need stays out of the go.mod of its users.
//
// # Where is what
//
// Each folder is a package of at most 25 files. Its doc.go says which file is about which hazard.
//
//	promises     the core: a test for each promise, kind of lock, deployment and class of faults
//	kinds        what each kind of lock is for, and its options
//	faults       one server: lost and late requests, connections, hangs, refusals
//	deployments  cluster, Sentinel, quorum
//	process      processes that are killed, suspended or closed, that adopt, or have much to do
//	operations   events, metrics, alerts, the journal, looking, forcing, rights
//	fencing      guards that refuse late writes: in SQL databases and Redis
//	peers        other libraries, other languages, no library
//	mutants      known breaks of the code, and the tests that must notice
//	internal     what they share: help, wire, trial, worker, memory, suite
//
// # Running
//
//	make test                               # the quick tests, with those of promises; make test-all for all
//	make one F=relay                        # the tests of one file, here process/relay_test.go
//	cd tests && go test -race ./promises    # all of one folder
//
// Some of them read a variable:
//
//	make mutants                                  # mutants: TestMutants runs only there
//	make observability                            # operations: TestObservability runs only there
//	make interop                                  # peers: with all libraries, none skipped
//	make overlaps RUNS=20                         # deployments: the table in docs/guarantees.md
//	REDLATCH_REDIS_SERVER=/path make one F=line   # any: another server than the redis-server on PATH
package tests
