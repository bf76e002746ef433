// Package redlatch provides distributed locks on Redis: processes take turns, every acquisition has
// a fencing token, and work stops when its lock is lost.
//
// Open a client once and share it; lock a name around the work:
//
//	client, err := redlatch.Open(ctx, "redis://localhost:6379", redlatch.Options{})
//	...
//	err = client.Mutex("invoice:42").Do(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
//		return pay(ctx, lease.Token())
//	})
//
// [Mutex.Do] waits in line, runs the function under a lease that is extended until the function
// ends, and releases the lease. If the lease is lost, the context is canceled. [Mutex.Lock] returns
// the [Lease] instead. [Mutex.TryDo] and [Mutex.TryLock] do not wait. The context given to Lock is
// the parent of the lease's context, so a timeout on it also ends the work; [LockOptions].MaxWait
// bounds only the wait.
//
// # Which lock
//
//   - [Mutex]: one at a time.
//   - [ReentrantMutex]: one owner, which may enter again.
//   - [RWMutex]: many readers or one writer.
//   - [Semaphore]: n permits.
//   - [SlotPool]: n numbered slots, such as worker ids.
//   - [Election]: one leader, and its value for the others.
//   - [Job]: a job that runs at most once in a window of time.
//   - [MultiMutex]: several mutexes, all or none.
//   - [CountDownLatch]: waiting until n others are done.
//
// All of them except the last give a [Lease]. All but Job can wait, in the same kind of line.
// [docs/choosing.md] compares them with each other and with the recipes they replace.
//
// # What a lease promises
//
// A lease that says it is held is held: this process gives it up before its TTL can end in Redis,
// even if the network fails or the machine was suspended. The exceptions are a server that loses
// data, an operator that takes the lock by force, and a failover: see "What is not promised".
//
// A watchdog extends every lease at a third of its TTL. While Redis does not answer, the lease is
// in jeopardy. If its deadline passes, it is lost, its context is canceled, and [context.Cause]
// returns the [*LostError]. LockOptions.MaxHold bounds work that hangs. [Lease.Wanted] tells long
// work that another acquisition is waiting. [Lease.Detach] and [Client.Adopt] pass a lease to
// another process.
//
// # What only the token promises
//
// A process can be suspended between its last look at the lease and its write. No lock service can
// prevent that (Kleppmann, "How to do distributed locking", 2016). So every acquisition has a
// fencing token, larger than those of all earlier acquisitions of the name, even after an expiry, a
// crash or the loss of all data in Redis. Entries of one owner of a [ReentrantMutex] share a token.
// Pass the token to the resource and let the resource refuse older ones:
//
//	UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
//
// Package fence and those below it do this for whole SQL transactions, for Redis and over HTTP.
// That works for locks with one holder. Holders of a [Semaphore] and readers of an [RWMutex] hold
// at the same time: let the resource check tokens per slot, or per item that a holder works on.
//
// # Waiting
//
// Waiters stand in one line across all processes, first come, first served. A release hands the
// lock to the next in line inside Redis and tells only that client. A waiter that died is passed
// over; a lost message costs one heartbeat. Goroutines of one client that wait for the same [Mutex]
// share one place in line, and pass the mutex on among themselves, each with its own token;
// LockOptions.StrictOrder turns that off. LockOptions.MaxWaiters bounds the line.
//
// # What is not promised
//
// One Redis server with asynchronous replicas can lose a lock in a failover: the new master may not
// know of it, and two clients may hold it until the first is told, at its deadline at the latest.
// The tokens still order them. A server that lost the last token, and whose clock was set back past
// the last acquisition, can repeat a token. [OpenQuorum] returns a client whose locks are held by a
// majority of independent servers, and survive the loss of a minority. [docs/guarantees.md] lists
// every fault and its tests.
//
// # Errors
//
// Errors name the lock, and errors of requests also the server. Test them with errors.Is for
// [ErrTaken] and the other variables below, and with errors.As for a [*LostError], a [*KindError],
// a [*LeftError] of Close, or a [*TakenError]. When MaxWait runs out, the error matches
// [context.DeadlineExceeded], as when your own deadline passes. The error of a wait that was cut
// short matches ErrTaken and the error of its context, so test for [context.Canceled] first if that
// matters. A request without an answer is never reported as taken: the error is [ErrUnreachable],
// and what the request may have left behind is cleaned up.
//
// # Other uses
//
// [Client.Inspect], [Client.List], [Client.Journal], [Client.Deadlocks], [Client.ForceRelease] and
// [Mutex.TakeByForce] are for operators; the redlatch command is built on them, and [WithLabels]
// adds labels to what they show.
//
// [Options].Hook receives an [Event] for everything that metrics, logs and traces need; see
// [JoinHooks] and [LogHook]. The modules redlatchprom and redlatchotel have metrics and traces,
// which [docs/observability.md] lists; [docs/operations.md] says what to do when an alert fires.
// Events, locks and leases implement [log/slog.LogValuer].
//
// Package compat makes locks that Redisson or Spring Integration can share; [docs/compatibility.md]
// lists other libraries that use the same lock as a [Mutex]. Package conn is for adapters to other
// Redis clients. The module redlatchtest has servers for your tests, one in memory for
// [testing/synctest]. The modules below adapters provide locks for gocron, client-go, certmagic and
// golang-migrate. The module redlatchvet reports leases that no code releases.
//
// [docs/choosing.md]: https://github.com/redlatch/redlatch/blob/main/docs/choosing.md
// [docs/guarantees.md]: https://github.com/redlatch/redlatch/blob/main/docs/guarantees.md
// [docs/observability.md]: https://github.com/redlatch/redlatch/blob/main/docs/observability.md
// [docs/operations.md]: https://github.com/redlatch/redlatch/blob/main/docs/operations.md
// [docs/compatibility.md]: https://github.com/redlatch/redlatch/blob/main/docs/compatibility.md
package redlatch
