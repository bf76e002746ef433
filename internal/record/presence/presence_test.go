package presence

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/testkit/answers"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// server keeps records as Redis does, but for their TTL. It answers after a while.
type server struct {
	conn.Conn
	slow time.Duration

	mu        sync.Mutex
	records   map[string]string
	writes    int
	listeners int64
}

func (s *server) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	select {
	case <-time.After(s.slow):
	case <-ctx.Done():
		return slices.Repeat([]conn.Result{{Err: ctx.Err()}}, len(calls))
	}
	results := make([]conn.Result, len(calls))
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, call := range calls {
		switch {
		case len(call.Args) == 1: // of a reader
			results[i].Reply.List = []conn.Reply{{Text: s.records[call.Keys[0]]}, {Int: TTL.Milliseconds() - 1000}, {Int: s.listeners}, {}}
		case call.Args[0] == "":
			delete(s.records, call.Keys[0])
		default:
			s.records[call.Keys[0]] = call.Args[0]
			s.writes++
		}
	}
	return results
}

// start runs a test in a bubble with a record at a server that takes that long to answer.
func start(t *testing.T, slow time.Duration, test func(t *testing.T, s *server, r *Record)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{slow: slow, records: make(map[string]string)}
		entries := schedule.Start(clock.Now, func() {})
		r := New(t.Context(), s, "key", func() Process { return Process{Program: "program", Listens: true} }, 3*time.Second, entries, clock.Now)
		test(t, s, r)
		entries.Stop()
		r.Remove()
		check.That(t, len(s.records) <= 0, "records after Remove: %v, want none", s.records)
	})
}

// TestRecordIsWrittenInTime: once at first, and then before it expires.
func TestRecordIsWrittenInTime(t *testing.T) {
	start(t, time.Millisecond, func(t *testing.T, s *server, r *Record) {
		r.Announce()
		r.Announce()
		time.Sleep(10 * TTL)
		synctest.Wait()
		if s.writes < 10*3 || s.writes > 10*5 { // the schedule may take it earlier by its slack
			t.Errorf("%d writes in %v, want about one in %v, or a little less", s.writes, 10*TTL, TTL/3)
		}
		all, err := Read(t.Context(), s, []Key{{Record: "another"}, {Record: "key"}})
		if err != nil || all[0].Written || !all[1].Written || all[1].Process.Program != "program" || all[1].Process.PID != os.Getpid() {
			t.Errorf("Read = %+v, %v, want nothing and this process", all, err)
		}
	})
}

// TestRecordChangesInABurst: each event of a connection that flaps had a write of its own, and an
// older record could arrive last.
func TestRecordChangesInABurst(t *testing.T) {
	start(t, 100*time.Millisecond, func(t *testing.T, s *server, r *Record) {
		r.Announce()
		for range 50 {
			r.Again()
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		check.Equal(t, s.writes, 2, "writes")
	})
}

// TestSigns: a record tells when it was written; a client that says that it listens, and does not,
// is deaf, but not where the server does not tell how many listen.
func TestSigns(t *testing.T) {
	for listeners, want := range map[int64]Sign{
		0:  {Written: true, Ago: time.Second, Deaf: true},
		1:  {Written: true, Ago: time.Second, Listening: true},
		-1: {Written: true, Ago: time.Second},
	} {
		t.Run(fmt.Sprint(listeners), func(t *testing.T) {
			start(t, time.Millisecond, func(t *testing.T, s *server, r *Record) {
				s.listeners = listeners
				r.Announce()
				synctest.Wait()
				time.Sleep(time.Second)
				all := check.Value(Read(t.Context(), s, []Key{{Record: "key", Channel: "channel"}, {Record: "another", Channel: "channel"}})).OK(t)
				all[0].Process = Process{}
				if !reflect.DeepEqual(all, []Sign{want, {Listening: want.Listening}}) {
					t.Errorf("Read = %+v, want %+v, and of a client without a record whether it listens", all, want)
				}
			})
		})
	}
}

// TestAnnounceFirstWaits: for the record, but not for a server that does not answer, and not beyond
// its context.
func TestAnnounceFirstWaits(t *testing.T) {
	for name, c := range map[string]struct{ slow, patience, want time.Duration }{
		"server that answers": {100 * time.Millisecond, time.Hour, 100 * time.Millisecond},
		"server that hangs":   {time.Hour, time.Hour, time.Second},
		"caller in a hurry":   {time.Hour, 10 * time.Millisecond, 10 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			start(t, c.slow, func(t *testing.T, _ *server, r *Record) {
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				began := time.Now()
				r.AnnounceFirst(ctx)
				check.Equal(t, time.Since(began), c.want, "it took")
			})
		})
	}
}

// TestNothingIsSentUnlessAnnounced: a client that never acquires has no record, and deletes none.
func TestNothingIsSentUnlessAnnounced(t *testing.T) {
	start(t, 0, func(t *testing.T, s *server, _ *Record) {
		t.Cleanup(func() {
			check.That(t, s.writes == 0, "%d writes, want none", s.writes)
		})
	})
}

// TestReadFails: with the error of the server.
func TestReadFails(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	check.Error(t, "Read", check.ErrorOf(Read(ctx, &server{slow: time.Hour}, []Key{{Record: "key"}})), context.Canceled)
}

// TestRecordOfADetachedLeaseStays: others see which client has handed the lease on.
func TestRecordOfADetachedLeaseStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{records: make(map[string]string)}
		entries := schedule.Start(clock.Now, func() {})
		r := New(t.Context(), s, "key", func() Process { return Process{Listens: true} }, 3*time.Second, entries, clock.Now)
		r.Announce()
		r.Bequeath(time.Now().Add(time.Hour))
		r.Bequeath(time.Now().Add(time.Minute))
		entries.Stop()
		r.Remove()
		all, err := Read(t.Context(), s, []Key{{Record: "key"}})
		if err != nil || !all[0].Process.Detached || all[0].Process.Listens || all[0].Process.PID != os.Getpid() {
			t.Errorf("Read = %+v, %v, want this process, which has detached a lease and does not listen", all, err)
		}
	})
}

// FuzzRead reads what a server says of two clients: of one all notes, and of one those of an owner.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\x03\x04\x01\x0c{\"host\":\"h\"}\x00\x09\x00\x01\x03\x02\x01\x01o\x01\x03l{}"))
	f.Add([]byte("\x03\x04\x01\x02{}\x00\x09\x00\x01\x03\x02\x01\x03l{}\x01\x03l{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, _ := answers.Reply(data, 3)
		s := answers.New(func(context.Context, string, conn.Call) conn.Result { return conn.Result{Reply: r} })
		signs, err := Read(t.Context(), s, []Key{{Record: "a", Owners: []string{All}}, {Record: "b", Owners: []string{"rl-b-1"}}})
		check.That(t, err != nil || len(signs) == 2, "Read of two = %+v", signs)
	})
}
