package fleet

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// fake is a server with n names, that takes a time for each hundred of them.
type fake struct {
	n         int
	perBatch  time.Duration
	perName   time.Duration // of Inspect
	err       atomic.Pointer[error]
	told      atomic.Int64 // names that come before the error
	looks     atomic.Int64
	inspected atomic.Int64
	busy      atomic.Int64
	read      atomic.Int64
	sought    atomic.Int64
	asked     atomic.Int64 // how often the nodes were
	knot      bool         // in the first look for deadlocks
	quorum    bool
	deaf      bool // to Inspect
}

func (f *fake) List(ctx context.Context, _ redlatch.ListOptions) iter.Seq2[redlatch.LockInfo, error] {
	return func(yield func(redlatch.LockInfo, error) bool) {
		f.looks.Add(1)
		for i := range f.n {
			if i%100 == 0 {
				time.Sleep(f.perBatch)
				f.busy.Add(int64(f.perBatch))
			}
			if err := f.err.Load(); err != nil && *err != nil && int64(i) >= f.told.Load() {
				yield(redlatch.LockInfo{}, *err)
				return
			}
			info := named(fmt.Sprintf("name:%06d", i))
			if f.knot {
				info.Waiters = make([]redlatch.Waiter, 1)
			}
			if ctx.Err() != nil || !yield(info, nil) {
				return
			}
		}
	}
}

func (f *fake) Inspect(_ context.Context, name string) (redlatch.LockInfo, error) {
	f.inspected.Add(1)
	time.Sleep(f.perName)
	if f.deaf {
		return redlatch.LockInfo{}, redlatch.ErrUnreachable
	}
	return named(name), nil
}

func (f *fake) Nodes(context.Context) []redlatch.NodeInfo {
	if !f.quorum {
		return nil
	}
	f.asked.Add(1)
	return make([]redlatch.NodeInfo, 3)
}

func (f *fake) Journal(_ context.Context, q redlatch.JournalQuery) iter.Seq2[redlatch.JournalEntry, error] {
	return func(yield func(redlatch.JournalEntry, error) bool) {
		f.read.Add(1)
		for _, e := range []redlatch.JournalEntry{{ID: "1", Name: "a*b"}, {ID: "2", Name: "c"}} {
			if (q.Pattern == "" || q.Pattern == keys.Escape(e.Name)) && !yield(e, nil) {
				return
			}
		}
	}
}

func (f *fake) Deadlocks(context.Context) ([]redlatch.Deadlock, error) {
	if f.sought.Add(1) == 1 && f.knot {
		return make([]redlatch.Deadlock, 1), nil
	}
	return nil, errors.New("no right")
}

func named(name string) redlatch.LockInfo {
	now := time.Now()
	return redlatch.LockInfo{Name: name, Kind: "mutex", At: now, Holders: []redlatch.Holder{{Owner: "o", Client: "c", Since: now.Add(-time.Minute)}}}
}

func (f *fake) fail(err error) { f.err.Store(&err) }

// TestPollerLooksForViewersAlone watches that one poller serves all viewers, and that it stops when
// the last has left.
func TestPollerLooksForViewersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{n: 10}
		p := NewPoller(f, time.Second)
		defer p.Close()
		time.Sleep(time.Minute)
		check.Equal(t, f.looks.Load(), 0, "looks without a viewer")
		var stops []func()
		for range 1000 {
			stops = append(stops, p.Watch(Interest{}))
		}
		time.Sleep(10*time.Second + 500*time.Millisecond)
		check.Equal(t, f.looks.Load(), 11, "looks for 1000 viewers in 10.5s")
		if got, _ := p.Picture(); len(got.Locks) != 10 || got.Totals.Holders != 10 || got.Err != nil {
			t.Errorf("picture of %d locks, %+v, %v", len(got.Locks), got.Totals, got.Err)
		}
		for _, stop := range stops {
			stop()
			stop() // does nothing
		}
		time.Sleep(6 * time.Second)
		n := f.looks.Load()
		time.Sleep(time.Hour)
		if more := f.looks.Load() - n; more != 0 || p.Looks() {
			t.Errorf("%d looks after the last viewer left", more)
		}
		p.Watch(Interest{})
		time.Sleep(time.Second / 2)
		check.That(t, f.looks.Load() == n+1, "no look for a viewer that came later")
	})
}

// TestDeadlockStays: a look for deadlocks fails, and what the one before it has found is shown still.
func TestDeadlockStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{n: 2, knot: true}
		p := NewPoller(f, time.Second)
		defer p.Close()
		defer p.Watch(Interest{})()
		for f.sought.Load() < 2 {
			time.Sleep(time.Second)
		}
		synctest.Wait() // until what the look has found is shown
		got, _ := p.Picture()
		check.That(t, len(got.Deadlocks) == 1 && got.DeadlocksErr != nil, "%d deadlocks after a look that failed: %v", len(got.Deadlocks), got.DeadlocksErr)
	})
}

// TestOldTroubleIsOver: what viewers saw an hour ago, a deadlock and a look that failed, is not shown to the next
// as if it had just been seen.
func TestOldTroubleIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{n: 2, knot: true, deaf: true}
		p := NewPoller(f, time.Second)
		defer p.Close()
		stop := p.Watch(Interest{Name: "a"})
		time.Sleep(2 * time.Second)
		got, _ := p.Picture()
		_, err := got.Detail("a")
		check.That(t, len(got.Deadlocks) == 1 && err != nil, "at first %d deadlocks, and of the name %v", len(got.Deadlocks), err)
		stop()
		time.Sleep(time.Hour)
		check.Must(t, !p.Looks(), "it looks without a viewer")
		f.deaf = false
		for _, in := range []Interest{{Name: "a"}, {}} {
			defer p.Watch(in)()
			got := p.Await(t.Context(), time.Now(), in)
			_, err := got.Detail("a")
			check.That(t, len(got.Deadlocks) == 0 && err == nil, "an hour later %d deadlocks, and of the name %v", len(got.Deadlocks), err)
		}
	})
}

// TestNodesAreAskedInALongLook: a look at all names takes minutes, and what is known of the nodes is seconds old.
func TestNodesAreAskedInALongLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{n: 10_000, perBatch: 150 * time.Millisecond, quorum: true}
		p := NewPoller(f, time.Second)
		defer p.Close()
		defer p.Watch(Interest{})()
		const long = time.Minute
		time.Sleep(long)
		got, _ := p.Picture()
		check.That(t, f.looks.Load() == 1 && got.Taken.IsZero(), "%d looks in %v, want one that goes on", f.looks.Load(), long)
		if n := f.asked.Load(); n < int64(long/nodes)/2 || n > int64(long/nodes)+1 || len(got.Nodes) != 3 {
			t.Errorf("the nodes were asked %d times in %v, and %d are shown", n, long, len(got.Nodes))
		}
	})
}

// TestEverNewNames has a viewer open another name ever again: looks at them take a tenth of the time.
func TestEverNewNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{n: 10, perName: 20 * time.Millisecond}
		p := NewPoller(f, time.Second)
		defer p.Close()
		defer p.Watch(Interest{})()
		for i := range 1000 {
			stop := p.Watch(Interest{Name: fmt.Sprint("new", i)})
			time.Sleep(10 * time.Millisecond)
			stop()
		}
		if n := f.inspected.Load(); n < 10 || n > 100 { // of the 500 that there is time for
			t.Errorf("%d looks of %v in 10s", n, f.perName)
		}
	})
}

// TestPollerKeepsToItsShare watches how much of the time looks take, and that the names that a
// viewer has open are looked at all the same.
func TestPollerKeepsToItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{n: 10_000, perBatch: 15 * time.Millisecond}
		p := NewPoller(f, time.Second)
		defer p.Close()
		defer p.Watch(Interest{Name: "name:000042"})()
		time.Sleep(500 * time.Millisecond)
		if got, _ := p.Picture(); got.Found == 0 || !got.Taken.IsZero() {
			t.Errorf("after half a second %d names are shown, taken %v: want some, of a first look that goes on", got.Found, got.Taken)
		}
		if l, err := func() (*Lock, error) { got, _ := p.Picture(); return got.Detail("name:000042") }(); l == nil || err != nil {
			t.Errorf("the name that is open: %v, %v", l, err)
		}
		const long = 2 * time.Minute
		time.Sleep(long)
		if busy := time.Duration(f.busy.Load()); busy > long/share*11/10 {
			t.Errorf("looks took %v of %v, want a tenth at most", busy, long)
		}
		if n := f.inspected.Load(); n < int64(long/time.Second)*9/10 {
			t.Errorf("the name that is open was looked at %d times in %v", n, long)
		}
		if got, _ := p.Picture(); len(got.Locks) != 10_000 || got.Found != 0 {
			t.Errorf("picture of %d locks, %d found", len(got.Locks), got.Found)
		}
	})
}

// TestScrapesGetAPicture: viewers are there for an instant, seldom, and a look takes longer than that. It ends.
func TestScrapesGetAPicture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPoller(&fake{n: 10_000, perBatch: 150 * time.Millisecond}, time.Second)
		defer p.Close()
		for range 20 {
			p.Watch(Interest{})()
			time.Sleep(15 * time.Second)
		}
		picture, _ := p.Picture()
		check.That(t, len(picture.Locks) == 10_000 && !picture.Taken.IsZero(), "after five minutes %d names are known, of a look at %v", len(picture.Locks), picture.Taken)
		time.Sleep(10 * time.Minute)
		check.That(t, !p.Looks(), "it looks on without a viewer")
	})
}

// TestStatus: a picture that took long says so, and the status of a lock is not that of the list: a user that may
// not list names sees a lock live.
func TestStatus(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) *Lock { return NewLock(redlatch.LockInfo{Name: "a"}, now.Add(-d)) }
	broken := errors.New("broken")
	for _, c := range []struct {
		p          Picture
		list, lock string
	}{
		{Picture{}, "looking", "looking"},
		{Picture{Taken: now, Begun: now}, "live", "looking"},
		{Picture{Taken: now, Begun: now.Add(-Fresh)}, "live", "looking"},
		{Picture{Taken: now, Begun: now.Add(-3 * time.Minute)}, "3m0s old", "looking"},
		{Picture{Found: 3_000}, "looking: 3,000 names", "looking"},
		{Picture{Found: 3, Err: broken}, "! names may be missing", "looking"},
		{Picture{Err: broken, details: map[string]*detail{"a": {lock: ago(0)}}}, "! no data yet", "live"},
		{Picture{Taken: now, Begun: now, details: map[string]*detail{"a": {lock: ago(time.Minute)}}}, "live", "1m0s old"},
		{Picture{Taken: now, Begun: now, details: map[string]*detail{"a": {lock: ago(time.Second), err: broken}}}, "live", "! 1s old"},
		{Picture{Taken: now, Begun: now.Add(-time.Hour), Err: broken, details: map[string]*detail{"a": {err: broken}}}, "! 1h0m old", "! no data yet"},
	} {
		for name, want := range map[string]string{"": c.list, "a": c.lock} {
			got, failing := c.p.Status(name, now)
			if failing {
				got = "! " + got
			}
			check.Equal(t, got, want, "the status of %q in %+v", name, c.p)
		}
	}
}

// TestPollerSaysSinceWhen has a server fail and come back.
func TestPollerSaysSinceWhen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{n: 3}
		p := NewPoller(f, time.Second)
		defer p.Close()
		defer p.Watch(Interest{})()
		time.Sleep(1500 * time.Millisecond)
		broken := errors.New("broken")
		f.fail(broken)
		start := time.Now()
		time.Sleep(time.Minute)
		got, _ := p.Picture()
		if !errors.Is(got.Err, broken) || len(got.Locks) != 3 || got.Since.Sub(start) > 2*time.Second || got.Taken.After(start) {
			t.Errorf("during the outage: %v since %v, %d locks of %v", got.Err, got.Since, len(got.Locks), got.Taken)
		}
		f.told.Store(1)
		time.Sleep(10 * time.Second)
		got, _ = p.Picture()
		if !errors.Is(got.Err, broken) || len(got.Locks) != 3 || got.Totals.Names != 3 || got.Taken.After(start) ||
			time.Since(got.Locks[0].Looked) > 5*time.Second || got.Locks[1].Looked.After(start) {
			t.Errorf("during a part of the outage: %v, %d locks, %+v", got.Err, len(got.Locks), got.Totals)
		}
		f.fail(nil)
		time.Sleep(3 * time.Second)
		if got, _ := p.Picture(); got.Err != nil || !got.Since.IsZero() {
			t.Errorf("after the outage: %v since %v", got.Err, got.Since)
		}
	})
}

// TestViewerThatComesInAnOutage sees what viewers before it saw, and not an empty list.
func TestViewerThatComesInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{n: 3}
		p := NewPoller(f, time.Second)
		defer p.Close()
		stop := p.Watch(Interest{})
		time.Sleep(3 * time.Second)
		stop()
		time.Sleep(time.Minute)
		broken := errors.New("broken")
		f.fail(broken)
		defer p.Watch(Interest{})()
		got := p.Await(t.Context(), time.Now(), Interest{})
		check.That(t, errors.Is(got.Err, broken) && len(got.Locks) == 3, "%v and %d locks", got.Err, len(got.Locks))
	})
}

// TestPollerBeginsInAPartOfAnOutage: the first look fails, and what it has found is shown.
func TestPollerBeginsInAPartOfAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{n: 3}
		f.told.Store(2)
		f.fail(errors.New("broken"))
		p := NewPoller(f, time.Second)
		defer p.Close()
		defer p.Watch(Interest{})()
		for range 3 {
			time.Sleep(5 * time.Second)
			if got, _ := p.Picture(); got.Err == nil || len(got.Locks) != 2 || got.Found != 2 || !got.Taken.IsZero() {
				t.Errorf("%d locks, %d found, %v, taken %v", len(got.Locks), got.Found, got.Err, got.Taken)
			}
		}
	})
}

// TestPicturesStay looks at one that was published while others come.
func TestPicturesStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{n: 3}
		p := NewPoller(f, time.Second)
		defer p.Close()
		defer p.Watch(Interest{})()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		first := p.Await(ctx, time.Now(), Interest{})
		f.n = 5
		second := p.Await(ctx, time.Now().Add(time.Second), Interest{})
		if len(first.Locks) != 3 || len(second.Locks) != 5 || second.Number <= first.Number {
			t.Errorf("pictures of %d and %d locks, numbers %d and %d", len(first.Locks), len(second.Locks), first.Number, second.Number)
		}
	})
}

// TestRecords has the poller read records while viewers look at them, newest first.
func TestRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{n: 1}
		p := NewPoller(f, time.Second)
		defer p.Close()
		defer p.Watch(Interest{})()
		time.Sleep(10 * time.Second)
		check.Equal(t, f.read.Load(), 0, "looks at a record that has no viewer")
		defer p.Watch(Interest{Record: true})()
		defer p.Watch(Interest{Name: "a*b"})()
		time.Sleep(30 * time.Second)
		if n := f.read.Load(); n < 8 || n > 12 {
			t.Errorf("%d looks at two records in 30s, want one for both in 3s", n)
		}
		got, _ := p.Picture()
		if r := got.Record(""); r == nil || len(r.Entries) != 2 || r.Entries[0].ID != "2" {
			t.Errorf("the record of all is %+v", r)
		}
		if r := got.Record("a*b"); r == nil || len(r.Entries) != 1 || r.Entries[0].Name != "a*b" {
			t.Errorf("the record of a name is %+v", r)
		}
		check.That(t, f.sought.Load() == 0, "deadlocks were looked for where no client waits")
	})
}

func TestQuery(t *testing.T) {
	at := time.Now()
	holder := func(host string, since time.Duration, dead bool) redlatch.Holder {
		return redlatch.Holder{Client: host, Process: redlatch.Process{Host: host, Program: "prog"}, Since: at.Add(-since), Dead: dead}
	}
	busy := redlatch.LockInfo{
		Name: "busy", Kind: "mutex", At: at, Remaining: 3, Holders: []redlatch.Holder{holder("a", time.Second, false)},
		Waiters: []redlatch.Waiter{{Client: "b", Since: at.Add(-time.Second), Process: redlatch.Process{Host: "Waits"}}},
	}
	old := redlatch.LockInfo{Name: "old", Kind: "rwmutex", At: at, Remaining: -1, Holders: []redlatch.Holder{holder("a", time.Hour, true)}}
	free := redlatch.LockInfo{Name: "a:list", RedisType: "list", At: at}
	var locks []*Lock
	for _, info := range []redlatch.LockInfo{free, busy, old} {
		locks = append(locks, NewLock(info, at))
	}
	for _, c := range []struct {
		q    Query
		want string
	}{
		{Query{}, "[busy a:list old]"},
		{Query{Sort: "name"}, "[a:list busy old]"},
		{Query{Sort: "held"}, "[old busy a:list]"},
		{Query{Sort: "expires"}, "[a:list busy old]"},
		{Query{Search: "WAITS"}, "[busy]"},
		{Query{Search: "LiSt"}, "[a:list]"},
		{Query{Kind: "rwmutex"}, "[old]"},
		{Query{State: "trouble", Sort: "name"}, "[a:list old]"},
		{Query{State: "contended"}, "[busy]"},
		{Query{State: "foreign"}, "[a:list]"},
		{Query{Search: "nothing"}, "[]"},
	} {
		var names []string
		for _, l := range c.q.Select(locks) {
			names = append(names, l.Name)
		}
		check.Equal(t, fmt.Sprint(names), c.want, "%+v", c.q)
	}
	all := (&Picture{Locks: locks}).Processes()
	check.That(t, len(all) == 2 && all[1].Client == "a" && len(all[1].Holds) == 2 && all[1].Dead && len(all[0].Waits) == 1, "processes = %+v", all)
}
