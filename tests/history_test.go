package tests

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
	record "github.com/redlatch/redlatch/internal/verify/history"
)

// seedVariable repeats a schedule of faults; how it meets the workers is up to the machine.
const seedVariable = "REDLATCH_TESTS_SEED"

// TestHistoryUnderFaults has workers over several clients take turns while connections, messages,
// replies and the server fail, and then looks at what they believed.
func TestHistoryUnderFaults(t *testing.T) {
	t.Parallel()
	for i, seed := range scheduleSeeds(t) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			t.Logf("%s=%d repeats this schedule", seedVariable, seed)
			testHistory(t, seed)
		})
	}
}

// scheduleSeeds is one that was asked for, or three new ones.
func scheduleSeeds(t *testing.T) []uint64 {
	t.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return []uint64{rand.Uint64(), rand.Uint64(), rand.Uint64()}
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", seedVariable, err)
	}
	return []uint64{seed}
}

func testHistory(t *testing.T, seed uint64) {
	const clients, workers, span = 3, 4, 8 * time.Second
	s := startAiling(t)
	var wg sync.WaitGroup
	var proxies []*proxy
	var all []*redlatch.Client
	histories := map[string]*history{"a": newHistory(record.Mutex), "b": newHistory(record.Mutex), "c": newHistory(record.Mutex)}
	ctx := untilEnough(t, span, func() bool {
		return histories["a"].length() > 0 && histories["b"].length() > 0 && histories["c"].length() > 0
	})
	order := redlatch.Off
	if seed%4 == 0 {
		order = redlatch.On
	}
	for range clients {
		p := startProxy(t, s.Server)
		c := open(t, p.url(), redlatch.Options{
			Heartbeat: 100 * time.Millisecond, RequestTimeout: 600 * time.Millisecond,
			Lock: redlatch.LockOptions{TTL: 400 * time.Millisecond, StrictOrder: order},
		})
		proxies, all = append(proxies, p), append(all, c)
		for name, h := range histories {
			for range workers {
				wg.Go(func() { h.toil(ctx, c.Mutex(name)) })
			}
		}
	}
	harm(ctx, s, proxies, rand.New(rand.NewPCG(seed, 0)))
	wg.Wait()
	for name, h := range histories {
		t.Run(name, h.check)
		for _, c := range all {
			isWell(t, c.Mutex(name).With(redlatch.LockOptions{TTL: 5 * time.Second}))
		}
	}
	wantQuiet(t, s.Server)
}

// wantQuiet checks that everything vanishes of what redlatch kept but fences, the last slots of
// instances and the records of clients, which all have a TTL.
func wantQuiet(t *testing.T, s *redistest.Server) {
	t.Helper()
	left := ""
	defer func() {
		if left != "" {
			t.Logf("left are %q", strings.Split(left, "\n"))
		}
	}()
	eventually(t, "nothing is left", func() bool {
		left = s.Do("EVAL", remains, "0")
		return left == ""
	})
}

// remains lists the keys that should not be there.
const remains = `local left = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local suffix = string.match(key, ':(%w+)$')
  local stays = suffix == 'fence' or suffix == 'last' or suffix == 'client' or suffix == 'notes'
  if not stays or redis.call('PTTL', key) < 0 then left[#left + 1] = key end
end
return left`

// untilEnough is done after span, or later if the machine is so busy that too little has happened
// by then for a history worth looking at.
func untilEnough(t *testing.T, span time.Duration, enough func() bool) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	go func() {
		defer cancel()
		for rest(ctx, span); ctx.Err() == nil && !enough(); {
			rest(ctx, span/8)
		}
	}()
	return ctx
}

// isWell checks that a mutex can be locked and released while nothing harms it. A request may still
// get no answer in time, from a machine that is busy.
func isWell(t *testing.T, m *redlatch.Mutex) {
	t.Helper()
	eventually(t, m.Name()+" can be locked and released", func() bool {
		l, err := m.Lock(within(t, patience))
		return err == nil && l.Release(context.Background()) == nil
	})
}

// harm does one thing after another to the connections and the server until ctx is done, and mends
// all.
func harm(ctx context.Context, s *ailing, proxies []*proxy, random *rand.Rand) {
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for ctx.Err() == nil {
		p := proxies[random.IntN(len(proxies))]
		switch random.IntN(10) {
		case 0:
			p.cut()
		case 1:
			p.swallow(replies)
			rest(ctx, upTo(900*time.Millisecond))
		case 2:
			p.swallow(requests)
			rest(ctx, upTo(900*time.Millisecond))
		case 3:
			p.delay(replies, upTo(180*time.Millisecond))
			rest(ctx, upTo(1500*time.Millisecond))
		case 4:
			s.Pause()
			rest(ctx, upTo(700*time.Millisecond)) // the TTL is shorter
			s.Resume()
		case 5:
			s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		case 6:
			s.Do("SCRIPT", "FLUSH")
		default:
			s.ail(ctx, random, proxies)
		}
		p.heal()
		rest(ctx, upTo(100*time.Millisecond))
	}
}

// rest lets time pass, as work or a fault takes it.
func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// history is what the workers of one lock did and believed, recorded and checked as `redlatch verify`
// does.
type history struct {
	kind     string
	resource highWater
	leases   atomic.Int64 // so far
	rec      *record.Recorder
	out      bytes.Buffer // guarded by rec
}

func newHistory(kind string) *history {
	h := &history{kind: kind}
	h.rec = record.NewRecorder(&h.out)
	return h
}

// asks notes that an acquisition begins, and returns its number.
func (h *history) asks(wait bool) (op int64) {
	return h.rec.Call(record.Event{Type: record.Acquire, Kind: h.kind, Name: h.kind, Wait: wait})
}

// refused notes that it came to nothing.
func (h *history) refused(op int64, why error) {
	h.rec.Note(record.Event{Type: record.Refused, Op: op, Why: why.Error()})
}

// granted notes a lease. It reports whether the lease is still there, and so has a token.
func (h *history) granted(op int64, l *redlatch.Lease, more record.Event) bool {
	token := l.Token()
	if token == 0 {
		h.refused(op, redlatch.ErrNotHeld)
		return false
	}
	h.leases.Add(1)
	more.Type, more.Op, more.Token, more.Owner = record.Granted, op, token, l.Owner()
	h.rec.Note(more)
	return true
}

// look asks the lease whether it is held.
func (h *history) look(op int64, l *redlatch.Lease) {
	h.rec.Look(op, func() int64 { return int64(l.Remaining()) })
}

// releases notes a release. What it returned is an end that may still come, unless it is nil.
func (h *history) releases(op int64, release func() error) {
	call := h.rec.Call(record.Event{Type: record.Release, Of: op})
	why := ""
	if err := release(); err != nil {
		why = err.Error()
	}
	h.rec.Note(record.Event{Type: record.Released, Op: call, Why: why})
}

// told returns the history for the checks, once the workers are done.
func (h *history) told(t *testing.T) *record.History {
	t.Helper()
	all := record.New()
	w := all.Worker("test")
	if err := errors.Join(h.rec.Err(), record.ReadEvents(bytes.NewReader(h.out.Bytes()), w.Add)); err != nil {
		t.Fatal(err)
	}
	w.Done()
	all.Arrange()
	return all
}

// toil locks, works and releases until ctx is done.
func (h *history) toil(ctx context.Context, m *redlatch.Mutex) {
	for ctx.Err() == nil {
		with := m
		if rand.IntN(2) == 0 {
			with = m.With(redlatch.LockOptions{Renew: redlatch.Off})
		}
		acquire, try := with.Lock, rand.IntN(4) == 0
		if try {
			acquire = with.TryLock
		}
		patient, cancel := context.WithTimeout(ctx, 2*time.Second)
		op := h.asks(!try)
		if l, err := acquire(patient); err == nil {
			h.hold(l, op)
		} else {
			h.refused(op, err)
			rest(ctx, 10*time.Millisecond) // a server that refuses does so at once
		}
		cancel()
	}
}

// hold works under a lease that the call op acquired.
func (h *history) hold(l *redlatch.Lease, op int64) {
	if !h.granted(op, l, record.Event{}) {
		return // lost by the time that it is here
	}
	token := l.Token()
	work(l, func() { h.look(op, l) })
	h.write(op, token)
	h.look(op, l) // does it still believe, if a later holder wrote before?
	h.releases(op, func() error { return l.Release(context.Background()) })
}

// write notes a write with a token, and whether the resource took it.
func (h *history) write(op, token int64) {
	call := h.rec.Call(record.Event{Type: record.Write, Of: op, Name: h.kind, Token: token, Value: op})
	h.rec.Note(record.Event{Type: record.Answer, Op: call, OK: h.resource.admit(token)})
}

// work takes a while, and looks at its lease or not.
func work(l *redlatch.Lease, look func()) {
	look()
	switch rand.IntN(20) {
	case 0: // suspended in the middle, it goes on as if nothing had happened
		rest(context.Background(), 300*time.Millisecond+rand.N(400*time.Millisecond))
	case 1, 2, 3: // to the end of the lease, or a long time
		for until := time.Now().Add(rand.N(1200 * time.Millisecond)); l.Held() && time.Now().Before(until); {
			rest(context.Background(), 2*time.Millisecond)
			look()
		}
	default:
		rest(l.Context(), rand.N(5*time.Millisecond))
		look()
	}
}

// length is how many leases were held.
func (h *history) length() int { return int(h.leases.Load()) }

// check checks that no two leases believed in themselves at the same time, that tokens tell which came
// later, that the resource took no late write, and that all of it fits an order of events.
func (h *history) check(t *testing.T) {
	all := h.told(t)
	lost, refused := 0, 0
	for _, k := range all.Holds {
		if k.Released == record.Never {
			lost++
		}
	}
	for _, w := range all.Access {
		if !w.OK {
			refused++
		}
	}
	t.Logf("%d holds, of which %d were lost; %d writes, of which %d were refused", len(all.Holds), lost, len(all.Access), refused)
	if len(all.Holds) == 0 {
		t.Fatal("nobody ever held the lock")
	}
	wantClean(t, all.Exclusion(record.Rules{}))
	wantClean(t, all.Tokens(record.Rules{}))
	wantClean(t, all.Stale())
	switch porcupine.CheckOperationsTimeout(leaseModel, leaseOperations(all.Holds), patience) {
	case porcupine.Illegal:
		t.Error("the history of the lease fits no order of events")
	case porcupine.Unknown:
		t.Log("the history of the lease took too long to check")
	}
}

// wantClean checks that a check found nothing.
func wantClean(t *testing.T, f record.Finding) {
	t.Helper()
	if f.Bad > 0 {
		t.Errorf("%s: %d times; first: %s", f.Check, f.Bad, f.First)
	}
}

// leaseState is who holds the lock in Redis, and the last token.
type leaseState struct{ holder, last int64 }

// An acquisition, and its end, for porcupine.
type (
	acquire struct{ token int64 }
	finish  struct{ token int64 }
)

// leaseModel is a lock with leases: it can be acquired while nobody holds it, with a token larger
// than all before.
var leaseModel = porcupine.Model{
	Init: func() any { return leaseState{} },
	Step: func(state, input, _ any) (bool, any) {
		s := state.(leaseState)
		switch in := input.(type) {
		case acquire:
			return s.holder == 0 && in.token > s.last, leaseState{in.token, in.token}
		case finish:
			return s.holder == in.token, leaseState{0, s.last}
		}
		return false, s
	},
}

// leaseOperations are the holds of one name. One whose release is not confirmed ended at any time
// after it was last believed held: it expires, or a request that got no answer releases it, whenever.
func leaseOperations(holds []*record.Hold) []porcupine.Operation {
	var operations []porcupine.Operation
	for _, k := range holds {
		end := k.Release
		if k.Released == record.Never {
			end = max(k.Last, k.Granted)
		}
		operations = append(operations,
			porcupine.Operation{Input: acquire{k.Token}, Call: k.Called, Return: k.Granted},
			porcupine.Operation{Input: finish{k.Token}, Call: end, Return: k.Released})
	}
	return operations
}
