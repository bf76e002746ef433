package tests

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
	verifyhistory "github.com/redlatch/redlatch/internal/verify/history"
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
	histories := map[string]*history{"a": {}, "b": {}, "c": {}}
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
	ctx, cancel := context.WithTimeout(t.Context(), patience)
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

// history is what the workers of one name did and believed. Its times are by one clock.
type history struct {
	resource highWater

	mu     sync.Mutex // guards what is below
	holds  []hold
	writes []porcupine.Operation
}

// hold is one acquisition, as its worker saw it.
type hold struct {
	token            int64
	called, returned time.Duration // Lock
	first, last      time.Duration // it was held from first to last, for sure; both 0 if it never said so
	end, ended       time.Duration // between these it ceased to be held in Redis
}

// never is the end of what may still happen when the history is over.
const never = math.MaxInt64

var epoch = time.Now()

func now() time.Duration { return time.Since(epoch) }

// toil locks, works and releases until ctx is done.
func (h *history) toil(ctx context.Context, m *redlatch.Mutex) {
	for ctx.Err() == nil {
		with := m
		if rand.IntN(2) == 0 {
			with = m.With(redlatch.LockOptions{Renew: redlatch.Off})
		}
		acquire := with.Lock
		if rand.IntN(4) == 0 {
			acquire = with.TryLock
		}
		patient, cancel := context.WithTimeout(ctx, 2*time.Second)
		called := now()
		if l, err := acquire(patient); err == nil {
			h.hold(l, called)
		} else {
			rest(ctx, 10*time.Millisecond) // a server that refuses does so at once
		}
		cancel()
	}
}

// hold works under a lease, and remembers how it went.
func (h *history) hold(l *redlatch.Lease, called time.Duration) {
	k := hold{called: called, returned: now()}
	if k.token = l.Token(); k.token == 0 {
		return // lost by the time that it is here
	}
	work(l, func() { h.look(l, &k) })
	if accepted := h.write(k.token); !accepted && l.Held() {
		k.last = never // a later holder wrote before, and this one still believes
	}
	k.end = now()
	err := l.Release(context.Background())
	k.ended = now()
	if err != nil {
		k.ended = never // it expires, or a request that got no answer releases it, whenever
	}
	if errors.As(err, new(*redlatch.LostError)) {
		k.end = max(k.last, k.returned)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holds = append(h.holds, k)
}

// work takes a while, and looks at its lease or not.
func work(l *redlatch.Lease, look func()) {
	look()
	switch rand.IntN(20) {
	case 0: // suspended in the middle, it goes on as if nothing had happened
		rest(context.Background(), 300*time.Millisecond+rand.N(400*time.Millisecond))
	case 1, 2, 3: // to the end of the lease, or a long time
		for until := now() + rand.N(1200*time.Millisecond); l.Held() && now() < until; {
			rest(context.Background(), 2*time.Millisecond)
			look()
		}
	default:
		rest(l.Context(), rand.N(5*time.Millisecond))
		look()
	}
}

// look asks the lease whether it is held. The answer yes is from a moment between two readings of
// the clock, and a lease that is held now was held ever since: so it was held from after the first
// yes to before the last.
func (h *history) look(l *redlatch.Lease, k *hold) {
	before := now()
	if !l.Held() {
		return
	}
	if k.first == 0 {
		k.first = now()
	}
	k.last = max(k.first, before)
}

// write is one write to the resource, for porcupine.
type write struct{ token int64 }

func (h *history) write(token int64) bool {
	called := now()
	accepted := h.resource.admit(token)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writes = append(h.writes, porcupine.Operation{
		Input: write{token}, Call: int64(called), Output: accepted, Return: int64(now()),
	})
	return accepted
}

// length is how many leases were held.
func (h *history) length() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.holds)
}

func (h *history) check(t *testing.T) {
	lost, refused := 0, 0
	for _, k := range h.holds {
		if k.ended == never {
			lost++
		}
	}
	for _, w := range h.writes {
		if !w.Output.(bool) {
			refused++
		}
	}
	t.Logf("%d holds, of which %d were lost; %d writes, of which %d were refused", len(h.holds), lost, len(h.writes), refused)
	if len(h.holds) == 0 {
		t.Fatal("nobody ever held the lock")
	}
	checkBeliefs(t, h.holds)
	checkLinear(t, "lease", leaseModel, leaseOperations(h.holds))
	checkLinear(t, "resource", resourceModel, h.writes)
}

// checkBeliefs checks that no two leases believed in themselves at the same time, and that tokens
// tell which came later.
func checkBeliefs(t *testing.T, holds []hold) {
	t.Helper()
	wantClean(t, records(holds).Exclusion(verifyhistory.Rules{}))
	checkTokens(t, holds)
}

// overlaps counts the leases that began while another was held, or believed in themselves when
// another had begun.
func overlaps(holds []hold) int { return records(holds).Exclusion(verifyhistory.Rules{}).Bad }

// checkTokens checks that tokens tell which came later.
func checkTokens(t *testing.T, holds []hold) {
	t.Helper()
	wantClean(t, records(holds).Tokens(verifyhistory.Rules{}))
}

// wantClean checks that a check found nothing.
func wantClean(t *testing.T, f verifyhistory.Finding) {
	t.Helper()
	if f.Bad > 0 {
		t.Errorf("%s: %d times; first: %s", f.Check, f.Bad, f.First)
	}
}

// records returns the holds of one name as `redlatch verify` knows them.
func records(holds []hold) *verifyhistory.History {
	h := verifyhistory.New()
	for i, k := range holds {
		one := &verifyhistory.Hold{
			Worker: "test", Op: int64(i + 1), Kind: verifyhistory.Mutex, Name: "a", N: 1, Token: k.token,
			Called: int64(k.called), Granted: int64(k.returned), First: int64(k.first), Last: int64(k.last),
			Release: int64(k.end), Released: int64(k.ended),
		}
		if one.Token != 0 {
			h.Holds = append(h.Holds, one)
		}
	}
	h.Arrange()
	return h
}

func checkLinear(t *testing.T, what string, model porcupine.Model, operations []porcupine.Operation) {
	t.Helper()
	switch porcupine.CheckOperationsTimeout(model, operations, patience) {
	case porcupine.Illegal:
		t.Errorf("the history of the %s fits no order of events", what)
	case porcupine.Unknown:
		t.Logf("the history of the %s took too long to check", what)
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

func leaseOperations(holds []hold) []porcupine.Operation {
	var operations []porcupine.Operation
	for _, k := range holds {
		operations = append(operations,
			porcupine.Operation{Input: acquire{k.token}, Call: int64(k.called), Return: int64(k.returned)},
			porcupine.Operation{Input: finish{k.token}, Call: int64(k.end), Return: int64(k.ended)})
	}
	return operations
}

// resourceModel takes a write unless it saw a larger token.
var resourceModel = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, input, output any) (bool, any) {
		mark, token := state.(int64), input.(write).token
		fresh := token != 0 && token >= mark
		if fresh {
			mark = token
		}
		return fresh == output.(bool), mark
	},
}
