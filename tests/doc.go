// Package tests tries redlatch from outside, on real redis-server processes, with what can go wrong
// going wrong: replies that are lost or late, subscriptions that drop, processes that are killed or
// suspended, servers that hang, restart empty or refuse.
//
// It is a module of its own, so that what only tests need stays out of the go.mod of its users.
//
// # Running
//
//	make test                     # all modules, from the root of the repository
//	make one F=relay              # the tests of one file of this directory: relay_test.go
//	cd tests && go test -race .   # all of this directory
//
// Some of them read a variable:
//
//	make mutants                                  # mutants: TestMutants runs only there
//	make observability                            # prometheus: TestObservability runs only there
//	make interop                                  # realclients, python: with all libraries, none skipped
//	make overlaps RUNS=20                         # overlap: the table in docs/guarantees.md
//	REDLATCH_TESTS_SEED=7 make one F=history      # history: the same faults again
//	REDLATCH_REDIS_SERVER=/path make one F=line   # any: another server than the redis-server on PATH
//
// # Which file is about which hazard
//
// Each is named <file>_test.go, and runs alone with make one F=<file>.
//
//	adopt               leases that go on in another process: two that have one, or none
//	ailing              the ailments of servers that history tests use
//	allocs              a lock whose cost in memory grows
//	announce            waiters of other libraries that are not told, or kept out; tokens of two counters
//	bundle              requests that leave together: too many, too late, or undone
//	byforce             a mutex that a waiter gets between the force and its new holder; a robbery twice
//	cluster             cluster: a master dies, a slot moves, messages that go to every node
//	cluster_many        cluster: waiting for many names while slots move and a master dies, over few connections
//	context             the schedule is late: contexts that seem alive after the deadline
//	cost                bounds of what a crash or a lost message costs the others
//	countdown           a count that is counted twice, or waited for after its zero; what is gone taken for zero
//	countdown_fault     a countdown: lost and late requests, messages, processes and servers
//	crash               processes that are killed or suspended while they hold or wait
//	cutshort            a context that ends just as Redis grants
//	deadlock            processes and goroutines that wait for each other for ever; others taken for such
//	direct              a request on the goroutine of its caller that outlasts its context
//	election            an observer that misses a change; a leader that spins, or hides an error
//	events              counters that drift: an attempt or lease whose end is told twice, or never
//	everything          a holder is killed, a lock is forced, processes deadlock: a view that does not tell
//	extend              a lease of its own length: shortened by what is late, kept from the watchdog
//	failover            a replica is promoted: it may lack the lock, and its clock differs
//	fence               a late holder writes: Redis, HTTP, in memory
//	fencesql            a late holder writes: SQLite, and PostgreSQL, MariaDB if installed
//	force               a holder whose lock is taken by force finds out late, or not by whom; a repeated command
//	full                the server is out of memory, or its disk is full
//	history             many faults at once, one mutex; what the clients believed is checked afterwards
//	hook                a hook that panics leaves a lock behind
//	inspect             an operator takes the dead for the living
//	interop             other libraries, and no library, at the same key
//	job                 a job that runs twice in its window, or not at all
//	job_property        a job in a window: random runs, compared with a model (rapid)
//	journal             a record of what happened that lacks something, costs something, or grows
//	kinds               all kinds: bad input, deadlocks with oneself
//	kinds_fault         each kind: a holder or waiter dies, replies and messages are lost
//	kinds_history       each kind: many faults at once
//	kinds_property      each kind: random operations, compared with a model (rapid)
//	labels              labels that are not shown, or outlive what they are on
//	leak                keys, subscriptions and goroutines that stay; Close that hangs
//	leftover            keys that outlive the last place in a lock, and keep clients out
//	line                order: newcomers that overtake, herds, waiters that poll
//	list                a look at all locks costs what was ever used, or misses some
//	locker              code that wants a sync.Locker believes that it holds what it does not
//	losses              each request of each operation meets each mishap, by enumeration
//	lostreply           a reply is lost: locks held by no caller, or counted twice
//	maxwaiters          a line longer than it may be; a place refused to a waiter that had it
//	metrics             metrics of two modules that say different things, or drift from the events
//	minhold             a lock that opens too early, or is asked for too often
//	multi               several names: deadlock, one of them taken or lost
//	mutants             tests that notice nothing: known breaks of the code
//	nodes               a node of a quorum that is told to vote, or to answer, and does not
//	observability       a board or an alert without data, an explanation or a section of the runbook
//	outage              a waiter that is cut off is silent, or tells each request
//	outcome             an acquisition that is counted as what it was not
//	overlap             how often two hold at once when a deployment fails; the table in guarantees.md
//	permits             permits that are free, and all of them at once: counted twice, or none
//	print               locks and leases that show their insides
//	proclaim            a leader changes its value: lost, late, or told to no observer
//	prometheus          an alert that does not fire, on a Prometheus and a program with faults
//	property            a mutex: random operations, compared with a model (rapid)
//	python              a client of another language that the protocol's page does not say enough for
//	quorum              quorum: the life of a lease of each kind, ties
//	quorum_clock_linux  quorum: the clock of a node is set
//	quorum_cost         quorum: requests that are needless, renewals that leave one by one
//	quorum_fault        quorum: nodes that die, forget, are slow, stale or cut off
//	quorum_refusal      quorum: errors that mistake "held" for "unreachable"; servers that cannot be nodes
//	realclients         lock libraries of other languages: two holders, or a waiter that is forgotten
//	reason              a loss whose reason a program cannot tell, or a context that is done
//	recipes             the classic recipes for locks, each with its flaw
//	reentrant           entries that are counted twice, or for ever
//	refusal             servers that refuse: replicas, passwords, rights, keys of another type
//	relay               the handoff within a process: tokens, losses, waiters that give up
//	renew               the watchdog: work that hangs, extends that create, releases too early
//	rwmutex             readers that starve writers, and the other way round; readers that die
//	security            rights that redlatch does not need; passwords in errors
//	semaphore           permits that expire one by one; a size that comes back
//	server              a server that is killed, emptied or hangs
//	silence             connections that die without a reset
//	simulated           mutants that the simulation does not find
//	slotpool            a number that is given again too early; a search that costs more with the pool
//	straggler           requests that arrive when all is over
//	stray               leases that no code has, or that outlive the context of their acquisition
//	subscription        messages that are lost, and a server without publish/subscribe
//	taken               a lock that is taken, and no word of the holder
//	token               tokens that repeat: FLUSHALL, restarts, expiries
//	trydo               a function that runs though the lock is taken; a try that keeps its lock
//	undo                what is undone late undoes too much
//	vectors             a script that does what docs/vectors does not say
//	wanted              a holder that is not told that it is waited for, or told without a reason
//
// # Helpers
//
// Files named help_*_test.go have no tests; main_test.go has TestMain.
//
//	help_bubble         a server in memory, in a bubble of testing/synctest
//	help_client         clients, leases, waiting for conditions, keys
//	help_conn           connections that fail in chosen ways
//	help_deadline       what a lease says when it is lost
//	help_events         what the hook was told
//	help_guard          a resource that checks tokens, in memory
//	help_ledger         a resource that checks tokens, in a database
//	help_lossy          a connection on which chosen requests meet mishaps
//	help_neighbours     clients that follow the protocols of Redisson and Spring Integration
//	help_process        worker processes, to be killed and suspended
//	help_proxy          a TCP proxy that cuts, delays and swallows
//	help_source         what a test needs of the source, so that mutants build fast
//	help_sqlserver      SQLite, PostgreSQL and MariaDB servers
//	help_vectors        a state, a call of a script, and what they come to, as JSON
package tests
