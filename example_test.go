package redlatch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// url names the Redis server of the examples, as redis://localhost:6379 would.
var url string

func TestMain(m *testing.M) {
	os.Exit(redistest.Main(m, func(s *redistest.Server) { url = s.URL() }))
}

func Example() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Mutex("invoice:42").Do(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		// One process at a time is here. If the lock is lost, ctx is canceled.
		fmt.Println("paying invoice 42")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: paying invoice 42
}

func ExampleMutex() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	lease, err := client.Mutex("report:monthly").Lock(ctx) // waits in line
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	fmt.Println("held:", lease.Held(), "has a token:", lease.Token() > 0)
	// Output: held: true has a token: true
}

func ExampleMutex_TryLock() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	lease, err := client.Mutex("cleanup").TryLock(ctx)
	if errors.Is(err, redlatch.ErrTaken) {
		fmt.Println("another process is cleaning up")
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	fmt.Println("cleaning up")
	// Output: cleaning up
}

func ExampleMutex_TryDo() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	err := client.Mutex("cleanup").TryDo(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		fmt.Println("cleaning up")
		return nil
	})
	switch {
	case errors.Is(err, redlatch.ErrTaken):
		fmt.Println("another process is cleaning up")
	case err != nil:
		log.Fatal(err)
	}
	// Output: cleaning up
}

func ExampleMutex_With() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	migration := client.Mutex("migration").With(redlatch.LockOptions{TTL: time.Minute, MaxWait: 10 * time.Second})
	err := migration.Do(ctx, func(context.Context, *redlatch.Lease) error {
		fmt.Println("migrating")
		return nil
	})
	if errors.Is(err, redlatch.ErrTaken) {
		fmt.Println("another instance was at it for more than 10s")
	}
	// Output: migrating
}

// A lease is held until it is released or lost. A holder that was suspended while it ran out finds its token refused.
func ExampleLease() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	var account struct { // stands for a row with a fence column
		sync.Mutex
		balance int
		fence   int64
	}
	write := func(balance int, token int64) error {
		account.Lock()
		defer account.Unlock()
		if token < account.fence || token == 0 {
			return fmt.Errorf("stale token")
		}
		account.balance, account.fence = balance, token
		return nil
	}

	slow, err := client.Mutex("account:7").With(redlatch.LockOptions{TTL: 100 * time.Millisecond, Renew: redlatch.Off}).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer slow.Release(ctx)
	token := slow.Token() // and now the process is suspended

	next, err := client.Mutex("account:7").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Release(ctx)
	fmt.Println("next:", write(100, next.Token()))
	fmt.Println("slow:", write(50, token))
	fmt.Println("and if it asks again, its token is", slow.Token())
	// Output:
	// next: <nil>
	// slow: stale token
	// and if it asks again, its token is 0
}

func ExampleLease_Wanted() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	index := client.Mutex("index")
	lease, err := index.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	waiter := make(chan error)
	go func() {
		waiter <- index.Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
	}()
	for batch := 0; ; batch++ { // work for hours, in batches
		select {
		case <-lease.Wanted():
			fmt.Println("another waits: stop after this batch")
			lease.Release(ctx)
			fmt.Println("the waiter had it:", <-waiter)
			return
		case <-time.After(time.Millisecond):
		}
	}
	// Output:
	// another waits: stop after this batch
	// the waiter had it: <nil>
}

func ExampleMutex_TakeByForce() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	hung, err := client.Mutex("import").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer hung.Release(ctx)
	lease, err := client.Mutex("import").TakeByForce(ctx, redlatch.ForceOptions{Owner: hung.Owner(), Reason: "it hangs"})
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	<-hung.Context().Done()
	var lost *redlatch.LostError
	fmt.Println(errors.As(hung.Err(), &lost), lost.Force.Reason)
	// Output: true it hangs
}

func ExampleLease_ExtendTo() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	lease, err := client.Mutex("migration").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	// A step that must not lose the lock while Redis is moved to another machine.
	if err := lease.ExtendTo(ctx, 10*time.Minute); err != nil {
		log.Fatal(err)
	}
	fmt.Println("nine minutes are sure:", lease.Remaining() > 9*time.Minute)
	// Output: nine minutes are sure: true
}

func ExampleLease_Ensure() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	lease, err := client.Mutex("disk").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	// The next step takes up to ten seconds and must not be interrupted.
	if err := lease.Ensure(ctx, 10*time.Second); err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Remaining() >= 9*time.Second)
	// Output: true
}

func ExampleLockOptions() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{
		Lock: redlatch.LockOptions{
			TTL:     10 * time.Second, // what a crash costs the others
			MaxWait: time.Minute,      // then ErrTaken
			MaxHold: time.Hour,        // then the watchdog lets go
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Mutex("import").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	fmt.Println(lease.Remaining().Round(time.Second))
	// Output: 10s
}

func ExampleLockOptions_maxWaiters() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	search := client.Mutex("search").With(redlatch.LockOptions{MaxWaiters: 10})
	err := search.Do(ctx, func(context.Context, *redlatch.Lease) error {
		fmt.Println("200 OK")
		return nil
	})
	if errors.Is(err, redlatch.ErrLineFull) {
		fmt.Println("503 Service Unavailable: ten callers wait already")
	}
	// Output: 200 OK
}

func ExampleLockOptions_minHold() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	// At most five calls to a partner begin within a minute, over the whole fleet.
	calls := client.Semaphore("partner", 5).With(redlatch.LockOptions{MinHold: time.Minute})
	call := func(context.Context, *redlatch.Lease) error { return nil } // which takes a moment
	for range 5 {
		if err := calls.Do(ctx, 1, call); err != nil {
			log.Fatal(err)
		}
	}
	err := calls.TryDo(ctx, 1, call)
	fmt.Println("one more:", errors.Is(err, redlatch.ErrExhausted))
	// Output: one more: true
}

func ExampleOptions() {
	_, err := redlatch.Open(context.Background(), url, redlatch.Options{Prefix: "a{b", Program: "billing"})
	fmt.Println(errors.Is(err, redlatch.ErrInvalid))
	// Output: true
}

func ExampleEvent() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{
		Hook: func(_ context.Context, e redlatch.Event) { fmt.Println(e.Kind, e.Name, e.Type) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Mutex("observed").Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// mutex observed attempt
	// mutex observed granted
	// mutex observed released
}

func ExampleEventType() {
	var lost int
	options := redlatch.Options{Hook: func(_ context.Context, e redlatch.Event) {
		if e.Type == redlatch.EventLost {
			lost++ // a counter to be alerted on
		}
	}}
	client, err := redlatch.Open(context.Background(), url, options)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(lost)
	// Output: 0
}

func ExampleClient_Inspect() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{Program: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Mutex("inspected").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	info, err := client.Inspect(ctx, "inspected")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Kind, info.Key, "held by this client:", info.Holders[0].Client == client.ID())
	// Output: mutex redlatch:inspected held by this client: true
}

func ExampleLockInfo() {
	ctx, client := context.Background(), connect()
	defer client.Close()
	lease, err := client.Semaphore("printers", 3).Acquire(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	info, err := client.Inspect(ctx, "printers")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Kind, "of", info.Size)
	fmt.Println("a key that is no lock:", info.RedisType != "")
	// Output:
	// semaphore of 3
	// a key that is no lock: false
}

func ExampleHolder() {
	ctx, client := context.Background(), connect()
	defer client.Close()
	lease, err := client.Semaphore("scanners", 3).Acquire(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	info, err := client.Inspect(ctx, "scanners")
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range info.Holders {
		fmt.Println(h.Permits, "permits; it is this client:", h.Client == client.ID())
	}
	// Output: 2 permits; it is this client: true
}

// Without an output this is compiled and not run, since waiters come and go.
func ExampleWaiter() {
	ctx, client := context.Background(), connect()
	defer client.Close()
	info, err := client.Inspect(ctx, "document")
	if err != nil {
		log.Fatal(err)
	}
	for place, w := range info.Waiters {
		fmt.Println(place+1, w.Process.Program, "wants to", w.Mode, "since", w.Since)
	}
}

// Without an output this is compiled and not run, since it runs elsewhere.
func ExampleProcess() {
	ctx, client := context.Background(), connect()
	defer client.Close()
	info, err := client.Inspect(ctx, "nightly")
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range info.Holders {
		fmt.Printf("%s, process %d on %s\n", h.Process.Program, h.Process.PID, h.Process.Host)
	}
}

func ExampleClient_List() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{Prefix: "listed:"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Mutex("a").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	for info, err := range client.List(ctx, redlatch.ListOptions{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(info.Name, len(info.Holders), len(info.Waiters))
	}
	// Output: a 1 0
}

func ExampleListOptions() {
	ctx, client := context.Background(), connect()
	defer client.Close()
	for _, name := range []string{"invoice:41", "invoice:42", "order:42"} {
		lease, err := client.Mutex(name).Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer lease.Release(ctx)
	}
	var names []string
	for info, err := range client.List(ctx, redlatch.ListOptions{Pattern: "invoice:4?"}) {
		if err != nil {
			log.Fatal(err)
		}
		names = append(names, info.Name)
	}
	slices.Sort(names)
	fmt.Println(names)
	// Output: [invoice:41 invoice:42]
}

func ExampleLostError() {
	ctx, client := context.Background(), connect()
	defer client.Close()
	lease, err := client.Mutex("stolen").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := client.ForceRelease(ctx, "stolen", redlatch.ForceOptions{Owner: lease.Owner()}); err != nil {
		log.Fatal(err)
	}
	err = lease.Release(ctx)
	var lost *redlatch.LostError
	if errors.As(err, &lost) {
		fmt.Printf("lost %q; not held: %v\n", lost.Name, errors.Is(err, redlatch.ErrNotHeld))
	}
	// Output: lost "stolen"; not held: true
}

// An operator takes a lock by force. The holder and other operators learn which process did, and why.
func ExampleForce() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{Program: "runbook"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Mutex("deploy").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	// The owner makes it safe to repeat: a holder that came later is not hit.
	o := redlatch.ForceOptions{Owner: lease.Owner(), Reason: "it hangs"}
	if _, err := client.ForceRelease(ctx, "deploy", o); err != nil {
		log.Fatal(err)
	}
	<-lease.Context().Done()
	var lost *redlatch.LostError
	if errors.As(context.Cause(lease.Context()), &lost) && lost.Force != nil {
		fmt.Printf("%s: taken by %s: %s\n", lost.Reason, lost.Force.By.Program, lost.Force.Reason)
	}
	info, err := client.Inspect(ctx, "deploy")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("inspect:", info.Forced.Reason)
	// Output:
	// forced: taken by runbook: it hangs
	// inspect: it hangs
}

// Which nodes of a quorum vote. Without an output this is compiled and not run.
func ExampleClient_Nodes() {
	ctx := context.Background()
	client, err := redlatch.OpenQuorum(ctx, []string{"redis://a", "redis://b", "redis://c"}, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, node := range client.Nodes(ctx) {
		if node.Err != nil {
			fmt.Println(node.Addr, "does not answer:", node.Err)
		}
		for _, vote := range node.Votes {
			fmt.Println(node.Addr, vote.Kind, vote.State == redlatch.NodeVotes)
		}
	}
}

// Three servers of which one may fail. Without an output this is compiled and not run, since the other examples have one server.
func ExampleOpenQuorum() {
	ctx := context.Background()
	nodes := []string{"redis://a", "redis://b", "redis://c"}
	client, err := redlatch.OpenQuorum(ctx, nodes, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Election("scheduler").Run(ctx, "10.0.0.7:8080", func(ctx context.Context, term *redlatch.Lease) error {
		fmt.Println("leading, term", term.Token())
		<-ctx.Done()
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// lasting leaves out of a log what differs from run to run.
var lasting = slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case slog.TimeKey, "id", "owner", "token", "waited", "held_for", "remaining", "error":
		return slog.Attr{}
	}
	return a
}}

func ExampleEvent_LogValue() {
	ctx := context.Background()
	logger := slog.New(slog.NewTextHandler(os.Stdout, &lasting))
	client, err := redlatch.Open(ctx, url, redlatch.Options{
		Hook: func(ctx context.Context, e redlatch.Event) { logger.InfoContext(ctx, "lock", "event", e) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.RWMutex("logged").Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// level=INFO msg=lock event.type=attempt event.kind=rwmutex event.mode=write event.name=logged event.ttl=30s
	// level=INFO msg=lock event.type=granted event.kind=rwmutex event.mode=write event.name=logged event.ttl=30s event.outcome=granted
	// level=INFO msg=lock event.type=released event.kind=rwmutex event.mode=write event.name=logged event.ttl=30s
}

func ExampleLogHook() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &lasting))
	client, err := redlatch.Open(context.Background(), url, redlatch.Options{Hook: redlatch.LogHook(logger)})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Mutex("seized").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())
	if _, err := client.ForceRelease(context.Background(), "seized", redlatch.ForceOptions{}); err != nil {
		log.Fatal(err)
	}
	<-lease.Context().Done()
	// Output: level=ERROR msg="redlatch: lost a lease" kind=mutex name=seized ttl=30s reason=forced
}

func ExampleJoinHooks() {
	ctx := context.Background()
	var held atomic.Int64 // a gauge
	count := func(_ context.Context, e redlatch.Event) {
		switch e.Type {
		case redlatch.EventGranted:
			held.Add(1)
		case redlatch.EventReleased, redlatch.EventLost, redlatch.EventDetached:
			held.Add(-1)
		}
	}
	show := func(_ context.Context, e redlatch.Event) { fmt.Println(e.Type, "held:", held.Load()) }
	client, err := redlatch.Open(ctx, url, redlatch.Options{Hook: redlatch.JoinHooks(count, show)})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	err = client.Mutex("counted").Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// attempt held: 0
	// granted held: 1
	// released held: 0
}

func ExampleLease_Detach() {
	ctx, before := context.Background(), connect()
	lease, err := before.Mutex("migration").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	token := lease.Token()
	text, err := lease.Detach(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held here:", lease.Held())
	before.Close() // the program restarts, with the text in a file

	after := connect()
	defer after.Close()
	lease, err = after.Adopt(ctx, text, redlatch.LockOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	fmt.Println("held there:", lease.Held(), "with the same token:", lease.Token() == token)
	if again, err := after.Adopt(ctx, text, redlatch.LockOptions{}); err != nil {
		fmt.Println("a text works once:", errors.Is(err, redlatch.ErrNotHeld))
	} else {
		again.Release(ctx)
	}
	// Output:
	// held here: false
	// held there: true with the same token: true
	// a text works once: true
}

// A caller that finds a lock taken is told which owner holds it, or that it is the caller's own client.
func ExampleTakenError() {
	ctx, client := context.Background(), connect()
	defer client.Close()
	lease, err := client.Mutex("inbox").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	second, err := client.Mutex("inbox").TryLock(ctx)
	if err == nil {
		defer second.Release(ctx)
	}
	var taken *redlatch.TakenError
	if errors.As(err, &taken) {
		fmt.Printf("%s %q is taken; by this very client: %v\n", taken.Kind, taken.Name, taken.Own)
	}
	// Output: mutex "inbox" is taken; by this very client: true
}

func ExampleTakenError_Describe() {
	client := connect()
	defer client.Close()
	writeReport := func(context.Context, http.ResponseWriter) error { return nil }

	http.HandleFunc("POST /report", func(w http.ResponseWriter, r *http.Request) {
		err := client.Mutex("report:daily").TryDo(r.Context(), func(ctx context.Context, lease *redlatch.Lease) error {
			return writeReport(ctx, w)
		})
		var taken *redlatch.TakenError
		switch {
		case errors.As(err, &taken):
			// Describe asks Redis: mutex "report:daily" is held by web (pid 7 on a1) for 2s
			http.Error(w, taken.Describe(r.Context()), http.StatusConflict)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})

	ctx := context.Background()
	other := connect()
	defer other.Close()
	lease, err := other.Mutex("report:daily").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	for range 500 { // a process is written down in the background, some milliseconds after its first lease
		answer := httptest.NewRecorder()
		http.DefaultServeMux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/report", nil))
		if host, _ := os.Hostname(); strings.Contains(answer.Body.String(), host) {
			fmt.Println(answer.Code, strings.Fields(answer.Body.String())[:4])
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	// Output: 409 [mutex "report:daily" is held]
}

// A debug page shows what this process holds.
func ExampleLeaseInfo() {
	ctx, client := context.Background(), connect()
	defer client.Close()
	lease, err := client.RWMutex("catalog").RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	for _, held := range client.Leases() {
		fmt.Printf("%s %q (%s), its context is done: %v\n", held.Kind, held.Name, held.Mode, held.Outlived)
	}
	// Output: rwmutex "catalog" (read), its context is done: false
}

// Close tells of leases that were not released.
func ExampleLeftError() {
	ctx, client := context.Background(), connect()
	lease, err := client.Mutex("left").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx) // too late: after Close
	var left *redlatch.LeftError
	if errors.As(client.Close(), &left) {
		fmt.Println(len(left.Leases), "lease was left:", left.Leases[0].Name)
	}
	// Output: 1 lease was left: left
}

func ExampleForceOptions() {
	ctx, client := context.Background(), connect()
	defer client.Close()
	// No owner: from all holders. There are none.
	_, err := client.ForceRelease(ctx, "idle", redlatch.ForceOptions{Reason: "ticket 4711"})
	fmt.Println(errors.Is(err, redlatch.ErrNotHeld))
	// Output: true
}
