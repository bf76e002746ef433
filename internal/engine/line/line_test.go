package line

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/link/cleanup"
	"github.com/redlatch/redlatch/internal/link/subscribe"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
	"github.com/redlatch/redlatch/internal/testkit/answers"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// inLine runs a test of a Line over a server, in virtual time.
func inLine(t *testing.T, test func(t *testing.T, ln *Line, s *answers.Server)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		closing, end := context.WithCancel(context.Background())
		s := answers.New(answers.Yes)
		var goroutines sync.WaitGroup
		var owners atomic.Int64
		plan := schedule.Start(clock.Now, func() {})
		asker := ask.New(closing, s, 3*time.Second, clock.Now, func(ask.Subject, string, int64) error { return io.ErrUnexpectedEOF })
		sweeps := cleanup.New(closing, []conn.Conn{s}, plan, clock.Now, time.Second)
		ln := New(Needs{
			Asker: asker, Schedule: plan, Handoffs: new(handoff.Queue), Conn: s, Client: "x", Heartbeat: 5 * time.Second,
			Undo:    &lock.Undo{Queue: sweeps, Nodes: 1, LiveFor: 15 * time.Second, Sharded: func() bool { return false }},
			Notes:   notes.New(closing, s, "notes", time.Second, plan, clock.Now),
			LiveFor: 15 * time.Second, Remembers: 15 * time.Second, Now: clock.Now, Closing: closing, Go: func(f func()) bool { goroutines.Go(f); return true },
			Owner:    func() string { return fmt.Sprintf("rl-x-%d", owners.Add(1)) },
			Announce: func() {}, Back: func(string) {}, Refusal: func(_ *lock.Lock, reason string) error { return errors.New(reason) },
		})
		ln.Listener = subscribe.New(closing, s, "grants", time.Second, time.Minute, plan, clock.Now, subscribe.Handler{
			Message: func(string) {}, Changed: ln.PollNow, InUse: ln.Waits,
		})
		ln.Listener.ConnectPlain(t.Context())
		test(t, ln, s)
		s.Now(answers.Yes)
		end()
		plan.Stop()
		goroutines.Wait()
		sweeps.Close()
		ln.Listener.Wait()
		asker.Wait()
	})
}

func mutex(t *testing.T) *lock.Lock {
	t.Helper()
	set := check.Value(keys.Of("p:", "a")).OK(t)
	return &lock.Lock{
		Subject: ask.Subject{Kind: script.Mutex, Name: "a", Keys: set}, Client: "x", FenceTTL: time.Hour,
		Terms: lock.Terms{TTL: 30 * time.Second, Renews: true},
	}
}

// enter puts a waiter in line, which Redis has told its place.
func enter(ln *Line, l *lock.Lock, remaining time.Duration) (w *Waiter, owner string) {
	owner = ln.Owner()
	ticket, address := ln.Ticket(l, owner)
	w = ln.Add(l, nil, owner, ticket, address, ln.Now())
	ln.Place(w, script.Standing{Arrival: 1, First: true, Remaining: remaining}, ask.Answer{Sent: ln.Now()})
	return w, owner
}

// stands answers polls with this standing of the first ticket. Everything else is done.
func stands(remaining time.Duration, ticket conn.Reply) answers.Says {
	return func(ctx context.Context, verb string, call conn.Call) conn.Result {
		if verb != "await" {
			return answers.Yes(ctx, verb, call)
		}
		return conn.Result{Reply: conn.Reply{List: []conn.Reply{{Int: remaining.Milliseconds()}, {}, {}, {Text: "holder"}, {}, ticket}}}
	}
}

var inLineStill = conn.Reply{List: []conn.Reply{{Int: 0}}}

// TestGrantCountsFromTheLastPoll: Redis cannot have granted it before it answered that the waiter is
// in line.
func TestGrantCountsFromTheLastPoll(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		s.Now(stands(time.Minute, inLineStill))
		w, owner := enter(ln, mutex(t), time.Minute)
		time.Sleep(13 * time.Second)
		polls := s.Count("await")
		ln.Granted(owner, 9, "")
		g := <-w.Granted
		if age := ln.Now().Since(g.Sent); polls < 2 || age <= 0 || age > 6*time.Second {
			t.Errorf("after %d polls the grant counts from %v ago, want from the last heartbeat", polls, age)
		}
		if g.Token != 9 || g.TTL != 15*time.Second {
			t.Errorf("the grant is %+v, want token 9 for as long as the client is believed alive", g)
		}
	})
}

// TestPollsWhenTheHolderMayBeGone: the first in line asks just after the holder's lease could have
// run out, and a poll that finds it inside grants it.
func TestPollsWhenTheHolderMayBeGone(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		s.Now(stands(time.Second, conn.Reply{List: []conn.Reply{{Int: 1}, {Int: 5}, {}}}))
		start := time.Now()
		w, _ := enter(ln, mutex(t), time.Second)
		g := <-w.Granted
		if took := time.Since(start); g.Err != nil || took != time.Second+PollAfterExpiry {
			t.Errorf("granted %v after %v, want after 1s and %v", g, took, PollAfterExpiry)
		}
	})
}

// TestPlaceIsAskedForAgain: Redis lost the line. The waiter has its old place with a new owner, since
// the old one may have been inside.
func TestPlaceIsAskedForAgain(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			if verb == "acquire" {
				return conn.Result{Reply: conn.Reply{Int: 7}}
			}
			return stands(time.Minute, conn.Reply{List: []conn.Reply{}})(ctx, verb, call)
		})
		w, first := enter(ln, mutex(t), time.Minute)
		g := <-w.Granted
		if asked := s.Asked("acquire"); len(asked) != 1 || g.Owner == first || g.Token != 7 || asked[0].Args[4][0] != 'A' {
			t.Errorf("%d requests for the place, granted to %q with %d, want one, to a new owner whose client need not be heard", len(asked), g.Owner, g.Token)
		}
		ln.Granted(first, 9, "") // by a server that takes over, and has the old ticket
		time.Sleep(time.Second)
		released := s.Asked("release")
		check.That(t, len(released) > 0 && released[0].Args[1] == first, "the grant of the old owner is not given back: %v", released)
	})
}

// TestPlaceBehindAKeptLock: a waiter that finds itself first in line behind a client that only
// keeps the lock asks that client at once, also where its place was lost before.
func TestPlaceBehindAKeptLock(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			if verb == "acquire" {
				first := []conn.Reply{{}, {Int: 60_000}, {}, {Int: 1}, {Int: 1}, {Text: "rl-other-1~"}, {Int: 6}}
				return conn.Result{Reply: conn.Reply{List: first}}
			}
			if s.Count("acquire") > 0 {
				return stands(time.Minute, inLineStill)(ctx, verb, call)
			}
			return stands(time.Minute, conn.Reply{List: []conn.Reply{}})(ctx, verb, call)
		})
		w, _ := enter(ln, mutex(t), time.Minute)
		time.Sleep(5500 * time.Millisecond) // until its first poll
		check.Equal(t, s.Count("acquire"), 1, "requests for the place that was lost")
		check.Equal(t, s.Count("ask"), 1, "questions to the client that keeps the lock")
		ln.Cancel(w)
	})
}

// cluster is a server that is a cluster with sharded channels.
type cluster struct{ *answers.Server }

func (cluster) Target() conn.Target { return conn.Target{Addr: "there", Cluster: true} }

func (c cluster) SubscribeSharded(ctx context.Context, channel string, up func(), message func(string)) error {
	return c.Subscribe(ctx, channel, up, message)
}

// TestWaiterThatListensAtAReplica: a replica hears all messages, and its master does not count the
// clients that listen there. A client listens there around a failover, while it takes the replica
// for the master. Each release took such a waiter for dead. So when it lost its place it asks for one
// that it is granted whether or not it is counted.
func TestWaiterThatListensAtAReplica(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		ln.Listener = subscribe.New(ctx, cluster{s}, "grants", time.Second, time.Minute, ln.Schedule, clock.Now, subscribe.Handler{
			Message: func(string) {}, Changed: ln.PollNow, InUse: ln.Waits,
		})
		s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			if verb == "acquire" {
				return conn.Result{Reply: conn.Reply{Int: 7}}
			}
			return stands(time.Minute, conn.Reply{List: []conn.Reply{}})(ctx, verb, call)
		})
		l := mutex(t)
		ln.Listen(ctx, l)
		w, _ := enter(ln, l, time.Minute)
		ticket := func() string {
			ln.mu.Lock()
			defer ln.mu.Unlock()
			return w.ticket
		}
		before := ticket()
		<-w.Granted
		for ticket, anyway := range map[string]bool{before: false, ticket(): true} {
			told, err := script.ParseTicket(ticket)
			check.That(t, err == nil && told.Sharded && told.Anyway == anyway, "the ticket %q, want Anyway: %v", ticket, anyway)
		}
		check.That(t, !ln.Subscription(l).Counted(), "the tickets of other waiters are as before")
	})
}

// TestGrantFromBeforeTheLastPoll: a message is late, and a late copy of the acquisition has put the
// ticket in line again since. Another may be inside by now. The waiter asks, and waits on.
func TestGrantFromBeforeTheLastPoll(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		fenced := func(token int64) answers.Says {
			return func(ctx context.Context, verb string, call conn.Call) conn.Result {
				r := stands(time.Minute, inLineStill)(ctx, verb, call)
				if verb == "await" {
					r.Reply.List[4].Int = token
				}
				return r
			}
		}
		s.Now(fenced(9))
		w, owner := enter(ln, mutex(t), time.Minute)
		time.Sleep(6 * time.Second)
		polls := s.Count("await")
		ln.Granted(owner, 9, "")
		time.Sleep(time.Second)
		if len(w.Granted) > 0 || s.Count("await") != polls+1 {
			t.Errorf("a grant from before the last poll: %d believed, %d polls, want none and another poll", len(w.Granted), s.Count("await")-polls)
		}
		ln.Granted(owner, 10, "")
		check.Equal(t, (<-w.Granted).Token, 10, "the token that came after the poll")
		// The answer to the request for a place says the same.
		owner = ln.Owner()
		ticket, address := ln.Ticket(mutex(t), owner)
		w = ln.Add(mutex(t), nil, owner, ticket, address, ln.Now())
		ln.Place(w, script.Standing{Arrival: 1, Fence: 20, Remaining: time.Minute}, ask.Answer{Sent: ln.Now()})
		if ln.Granted(owner, 20, ""); len(w.Granted) > 0 {
			t.Error("a grant from before the answer that the waiter is in line is believed")
		}
		ln.Cancel(w)
	})
}

// TestGrantThatHasRunOut: since the grant, its owner may have been out and in again with a late copy
// of its acquisition. Only a poll tells the token that it has now.
func TestGrantThatHasRunOut(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		s.Now(answers.Silent)
		w, owner := enter(ln, mutex(t), time.Minute)
		time.Sleep(15 * time.Second)
		s.Now(stands(time.Minute, conn.Reply{List: []conn.Reply{{Int: 1}, {Int: 12}, {}}}))
		ln.Granted(owner, 9, "")
		if g := <-w.Granted; g.Token != 12 || g.TTL != 30*time.Second {
			t.Errorf("granted %+v, want what the poll told", g)
		}
	})
}

// TestGrantAfterCancelIsGivenBack: the ticket of a waiter that gave up may be granted all the same.
func TestGrantAfterCancelIsGivenBack(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		s.Now(stands(time.Minute, inLineStill))
		l := mutex(t)
		w, owner := enter(ln, l, time.Minute)
		if arrival := ln.Cancel(w); arrival != 1 || ln.Waits(l.Keys.State()) {
			t.Errorf("Cancel = %d, want the place that it had", arrival)
		}
		time.Sleep(10 * time.Second)
		before := s.Count("release")
		ln.Granted(owner, 9, "")
		ln.Granted("rl-x-another", 9, "")
		time.Sleep(10 * time.Second)
		if n := s.Count("release"); before == 0 || n <= before {
			t.Errorf("%d releases when it gave up, and %d after the grant, want more", before, n)
		}
		for _, call := range s.Asked("release") {
			check.Equal(t, call.Args[1], owner, "the owner that is released")
		}
	})
}

// TestTicketOfAWaiterThatGaveUp: it is looked for twice if Redis has answered all requests with it, since a
// server may take over that does not know of the first release. Otherwise a request may still put it in
// line, and it is looked for three times. This holds also after an outage that is longer than any lease.
func TestTicketOfAWaiterThatGaveUp(t *testing.T) {
	for name, c := range map[string]struct {
		place func(ln *Line, w *Waiter) // what Redis has told of it
		want  int64
	}{
		"answered": {func(ln *Line, w *Waiter) {
			ln.Place(w, script.Standing{Arrival: 1, First: true, Remaining: time.Hour}, ask.Answer{Sent: ln.Now()})
		}, 2},
		"answered the second time": {func(ln *Line, w *Waiter) {
			ln.Place(w, script.Standing{Arrival: 1, First: true, Remaining: time.Hour}, ask.Answer{Sent: ln.Now(), Resent: true})
		}, 3},
		"not answered": {func(*Line, *Waiter) {}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
				l := mutex(t)
				ticket, address := ln.Ticket(l, "rl-x-1")
				w := ln.Add(l, nil, "rl-x-1", ticket, address, ln.Now())
				c.place(ln, w)
				s.Now(answers.Silent)
				ln.Cancel(w)
				time.Sleep(30 * time.Minute)
				var answered atomic.Int64
				s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
					if verb == "release" {
						answered.Add(1)
						return conn.Result{}
					}
					return answers.Yes(ctx, verb, call)
				})
				time.Sleep(time.Minute)
				check.Equal(t, answered.Load(), c.want, "releases that Redis has answered")
			})
		})
	}
}

// TestCallOfAWaiterThatLeft: a node of a quorum calls a waiter that is not there. As a rule the call crossed
// the release, and nothing is sent. A while later a request has put the ticket in line.
func TestCallOfAWaiterThatLeft(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		l := mutex(t)
		ticket, _ := ln.Ticket(l, "rl-x-1")
		called := func() int {
			before := s.Count("release")
			ln.LeaveAgain("rl-x-1", time.Second)
			ln.LeaveAgain("rl-x-2", time.Second)
			synctest.Wait()
			return s.Count("release") - before
		}
		ln.Remember(l, "rl-x-1", ticket)
		time.Sleep(time.Second / 2)
		check.Equal(t, called(), 0, "releases after a call that crossed the release")
		ln.Remember(l, "rl-x-1", ticket) // as another node had no answer
		time.Sleep(time.Second)
		check.Equal(t, called(), 1, "releases after a later call")
		time.Sleep(ln.Remembers)
		check.Equal(t, called(), 0, "releases after a call for a waiter that is forgotten")
	})
}

// TestOutageIsTold: waiters learn that polls fail, once, and that they do not any more.
func TestOutageIsTold(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		s.Now(answers.Silent)
		w, _ := enter(ln, mutex(t), time.Minute)
		news, outage := ln.Watch(w)
		check.Must(t, outage == nil, "before a poll, the outage is %v", outage)
		<-news
		if news, outage = ln.Watch(w); outage == nil {
			t.Fatal("polls fail, and the waiter is not told why")
		}
		s.Now(stands(time.Minute, inLineStill))
		<-news
		if _, outage = ln.Watch(w); outage != nil {
			t.Errorf("polls are answered, and the outage is %v", outage)
		}
		if occupant, _ := ln.Status(w.lock); occupant.Owner != "holder" {
			t.Errorf("inside is %+v, want what the last poll told", occupant)
		}
	})
}

// TestPlaceThatComesLate: a waiter gives up while its place is asked for again, or is refused when a
// request for that got no answer. A request of these can put a ticket in line when the release of the
// waiter has been confirmed. It is released once more.
func TestPlaceThatComesLate(t *testing.T) {
	refused := conn.Result{Reply: conn.Reply{List: []conn.Reply{{Int: -1}, {Text: "size\t3"}}}}
	wrongType := conn.Result{Err: &conn.ReplyError{Text: "WRONGTYPE Operation against a key holding the wrong kind of value"}}
	place := conn.Result{Reply: conn.Reply{List: []conn.Reply{{}, {Int: 60_000}, {}, {Int: 1}, {}, {Text: "holder"}, {}}}}
	for name, c := range map[string]struct {
		answer conn.Result
		gives  bool // the waiter gives up before the answer
	}{
		"it gave up":           {answer: place, gives: true},
		"it was refused":       {answer: refused},
		"it is something else": {answer: wrongType},
	} {
		t.Run(name, func(t *testing.T) {
			inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
				var before atomic.Int64 // releases before the request that is answered
				s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
					switch {
					case verb == "await":
						return stands(time.Minute, conn.Reply{List: []conn.Reply{}})(ctx, verb, call)
					case verb == "acquire" && s.Count("acquire") < 3:
						return answers.Silent(ctx, verb, call)
					case verb == "acquire":
						before.Store(int64(s.Count("release")))
						return c.answer
					case verb == "release": // the owner is neither inside nor in line
						return conn.Result{}
					}
					return answers.Yes(ctx, verb, call)
				})
				w, _ := enter(ln, mutex(t), time.Minute)
				for s.Count("acquire") == 0 {
					time.Sleep(10 * time.Millisecond)
				}
				if !c.gives {
					time.Sleep(10 * time.Second)
				}
				if c.gives || len(w.Granted) == 0 {
					ln.Cancel(w)
				} else if g := <-w.Granted; g.Err == nil {
					t.Fatalf("granted %+v, want a refusal", g)
				}
				time.Sleep(time.Minute)
				if n := s.Count("release"); n < int(before.Load())+2 || s.Count("acquire") != 3 {
					t.Errorf("%d releases, %d of them before the answer to the last of %d requests, want two after it", n, before.Load(), s.Count("acquire"))
				}
			})
		})
	}
}

// TestPollBeforeThePlaceIsKnown: a message that a waiter is the first, and the return of its
// subscription, may overtake the answer to the request for its place. It is asked about after that.
func TestPollBeforeThePlaceIsKnown(t *testing.T) {
	for name, word := range map[string]func(ln *Line, w *Waiter){
		"message":      func(ln *Line, w *Waiter) { ln.PollAtExpiry(w.owner, 0) },
		"subscription": func(ln *Line, w *Waiter) { ln.PollNow(ln.Subscription(w.lock)) },
	} {
		t.Run(name, func(t *testing.T) {
			inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
				s.Now(stands(time.Minute, inLineStill))
				l, owner := mutex(t), ln.Owner()
				ticket, address := ln.Ticket(l, owner)
				w := ln.Add(l, nil, owner, ticket, address, ln.Now())
				word(ln, w)
				time.Sleep(time.Second)
				before := s.Count("await")
				ln.Place(w, script.Standing{Arrival: 1, Remaining: time.Minute}, ask.Answer{Sent: ln.Now()})
				time.Sleep(100 * time.Millisecond)
				if n := s.Count("await"); before != 0 || n != 1 {
					t.Errorf("%d polls before its place is known, and %d soon after, want one after", before, n)
				}
				ln.Cancel(w)
			})
		})
	}
}

// TestGrantWhileThePlaceIsAskedFor: an earlier copy of the request for a place may arrive after the
// lease has ended, so the grant says that it was sent more than once.
func TestGrantWhileThePlaceIsAskedFor(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			if verb == "acquire" {
				return answers.Silent(ctx, verb, call)
			}
			return stands(time.Minute, conn.Reply{List: []conn.Reply{}})(ctx, verb, call)
		})
		w, first := enter(ln, mutex(t), time.Minute)
		for s.Count("acquire") < 2 {
			time.Sleep(10 * time.Millisecond)
		}
		ln.Granted(s.Asked("acquire")[0].Args[1], 9, "")
		if g := <-w.Granted; g.Owner == first || !g.Resent {
			t.Errorf("granted %+v, want a grant to a new owner that was asked for more than once", g)
		}
	})
}

// TestFirstOfManyBehindAForeignHolder: one poll needs several requests, and only one of them has the
// first in line.
func TestFirstOfManyBehindAForeignHolder(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		l := mutex(t)
		waiters := make(map[string]*Waiter)
		for range maxPoll + 1 {
			owner := ln.Owner()
			ticket, address := ln.Ticket(l, owner)
			waiters[ticket] = ln.Add(l, nil, owner, ticket, address, ln.Now())
		}
		first := slices.Min(slices.Collect(maps.Keys(waiters)))
		s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			if verb != "await" {
				return answers.Yes(ctx, verb, call)
			}
			ahead := conn.Reply{Int: maxPoll}
			if slices.Contains(call.Args, first) {
				ahead.Int = 0
			}
			list := []conn.Reply{{Int: 60_000}, {Int: 1}, ahead, {Text: "another library"}, {}}
			for range len(call.Args) - 3 {
				list = append(list, inLineStill)
			}
			return conn.Result{Reply: conn.Reply{List: list}}
		})
		p := waiters[first].poller
		for ticket, w := range waiters {
			ln.Place(w, script.Standing{Arrival: 1, First: ticket == first, Foreign: true, Remaining: time.Minute}, ask.Answer{Sent: ln.Now()})
		}
		time.Sleep(time.Second)
		before := s.Count("await")
		ln.pollAnnounced(p)
		synctest.Wait()
		if n := s.Count("await") - before; n < 2 {
			t.Errorf("%d requests after an announcement, want a poll of two", n)
		}
		for _, w := range waiters {
			ln.Cancel(w)
		}
	})
}

// TestChannelsOfAllWaiters: goroutines may expect the announcement of a release at different channels,
// or at none.
func TestChannelsOfAllWaiters(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		s.Now(stands(time.Minute, inLineStill))
		var all []*Waiter
		for _, name := range []string{"", "b", "c", "b"} {
			l := mutex(t)
			l.Neighbours.Channel = name
			w, _ := enter(ln, l, time.Minute)
			all = append(all, w)
		}
		ln.Place(all[3], script.Standing{Arrival: 1, First: true, Foreign: true, Remaining: time.Minute}, ask.Answer{Sent: ln.Now()})
		ln.mu.Lock()
		check.Equal(t, len(all[0].poller.heeding), 2, "channels to which the client listens")
		ln.mu.Unlock()
		for _, w := range all {
			ln.Cancel(w)
		}
	})
}

// TestChannelsAreBounded: each channel of another library may take a connection. Beyond so many, waiters
// ask ten times a second, as all do, and listen when others are done.
func TestChannelsAreBounded(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			if verb != "await" {
				return answers.Yes(ctx, verb, call)
			}
			return conn.Result{Reply: conn.Reply{List: []conn.Reply{{Int: 60_000}, {Int: 1}, {}, {Text: "another library"}, {}, inLineStill}}}
		})
		var all []*Waiter
		for i := range 74 {
			l := mutex(t)
			l.Keys = check.Value(keys.Of("p:", fmt.Sprint(i))).OK(t)
			l.Neighbours.Channel = fmt.Sprint("c", i)
			w, _ := enter(ln, l, time.Minute)
			all = append(all, w)
		}
		listens := func() (n int) {
			time.Sleep(10 * time.Second) // all have asked
			ln.mu.Lock()
			defer ln.mu.Unlock()
			for _, w := range all {
				n += len(w.poller.heeding)
			}
			return n
		}
		check.Equal(t, listens(), 64, "channels to which the client listens")
		for _, w := range all[:40] {
			ln.Cancel(w)
		}
		all = all[40:]
		check.Equal(t, listens(), len(all), "channels to which it listens for those that are left")
		for _, w := range all {
			ln.Cancel(w)
		}
	})
}

// TestPaceOfTheShortestThatWaits: a waiter with a short TTL has left, and the others are polled for at
// their own pace again.
func TestPaceOfTheShortestThatWaits(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		s.Now(stands(time.Hour, inLineStill))
		long, short := mutex(t), mutex(t)
		short.TTL = 300 * time.Millisecond
		w, _ := enter(ln, long, time.Hour)
		brief, _ := enter(ln, short, time.Hour)
		time.Sleep(time.Second)
		if n := s.Count("await"); n < 5 {
			t.Errorf("%d polls in a second for a TTL of 300ms, want one in 100ms", n)
		}
		ln.Cancel(brief)
		time.Sleep(10 * time.Second)
		before := s.Count("await")
		time.Sleep(time.Minute)
		if n := s.Count("await") - before; n > 15 {
			t.Errorf("%d polls in a minute, want one each heartbeat of 5s", n)
		}
		ln.Cancel(w)
	})
}

// TestPlaceThatIsRefused: the server refuses to put one waiter in line again. Another waiter, which is
// in line, is polled for as ever.
func TestPlaceThatIsRefused(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		l := mutex(t)
		var lost atomic.Pointer[string] // the ticket that the line has not
		s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			if verb == "acquire" {
				return conn.Result{Err: errors.New("OOM command not allowed when used memory > 'maxmemory'")}
			}
			if verb != "await" {
				return answers.Yes(ctx, verb, call)
			}
			list := []conn.Reply{{Int: 60_000}, {}, {}, {Text: "holder"}, {}}
			for _, ticket := range call.Args[3:] {
				is := inLineStill
				if ticket == *lost.Load() {
					is = conn.Reply{List: []conn.Reply{}}
				}
				list = append(list, is)
			}
			return conn.Result{Reply: conn.Reply{List: list}}
		})
		w, _ := enter(ln, l, time.Minute)
		other, _ := enter(ln, l, time.Minute)
		lost.Store(&other.ticket)
		for s.Count("acquire") == 0 {
			time.Sleep(100 * time.Millisecond)
		}
		for range 100 {
			time.Sleep(50 * time.Millisecond)
			if _, outage := ln.Watch(w); outage != nil {
				t.Fatalf("a waiter that is in line is told of an outage: %v", outage)
			}
		}
		ln.Cancel(w)
		for range 100 {
			time.Sleep(50 * time.Millisecond)
			if _, outage := ln.Watch(other); outage != nil {
				ln.Cancel(other)
				return
			}
		}
		t.Error("a waiter that is refused its place is not told")
	})
}

// TestPlaceThatCanNeverBe: the server dropped a ticket since there were too few permits for it, and told
// the client to ask. Nothing is wrong with the subscription, by which the client holds its places in other
// lines: neither if the server still says so, nor if there are enough by then, and it did tell the client.
func TestPlaceThatCanNeverBe(t *testing.T) {
	refused := conn.Reply{List: []conn.Reply{{Int: -1}, {Text: "size\t1"}}}
	for name, c := range map[string]struct {
		told bool
		then conn.Reply
	}{
		"still refused, and not told": {false, refused},
		"told, and free by then":      {true, conn.Reply{Int: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
				s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
					if verb == "acquire" {
						return conn.Result{Reply: c.then}
					}
					return stands(time.Minute, conn.Reply{List: []conn.Reply{}})(ctx, verb, call)
				})
				l := mutex(t)
				w, owner := enter(ln, l, time.Minute)
				if time.Sleep(time.Second); c.told {
					ln.PollAtExpiry(owner, 0)
				}
				g := <-w.Granted
				check.That(t, (g.Err == nil) == c.told, "the wait ends with %v", g.Err)
				time.Sleep(time.Second)
				own := ln.Subscription(l)
				check.That(t, own.Session() == 1 && own.Counted(), "the subscription is made again, or taken for one that is not counted")
			})
		})
	}
}

// TestHeartbeatBesideANewWaiter: it makes no further poll when that waiter's place is known, or polls of
// waiters that keep coming would never end.
func TestHeartbeatBesideANewWaiter(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		s.Now(stands(time.Minute, inLineStill))
		l := mutex(t)
		w, _ := enter(ln, l, time.Minute)
		owner := ln.Owner()
		ticket, address := ln.Ticket(l, owner)
		next := ln.Add(l, nil, owner, ticket, address, ln.Now())
		time.Sleep(6 * time.Second)
		before := s.Count("await")
		ln.Place(next, script.Standing{Arrival: 2, Remaining: time.Minute}, ask.Answer{Sent: ln.Now()})
		time.Sleep(100 * time.Millisecond)
		if n := s.Count("await") - before; before == 0 || n != 0 {
			t.Errorf("%d polls, and %d more when a place is known, want none more", before, n)
		}
		ln.Cancel(w)
		ln.Cancel(next)
	})
}

// TestTicketsOfTwoAddresses: a client has another address than it had for an earlier ticket. Each ticket is
// kept believed alive where it is granted: what it is granted lasts no longer than that.
func TestTicketsOfTwoAddresses(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, s *answers.Server) {
		s.Now(stands(time.Hour, inLineStill))
		l := mutex(t)
		first := ln.Add(l, nil, ln.Owner(), "ticket", "earlier", ln.Now())
		ln.Place(first, script.Standing{Arrival: 1, First: true, Remaining: time.Hour}, ask.Answer{Sent: ln.Now()})
		second, _ := enter(ln, l, time.Hour)
		time.Sleep(time.Minute)
		at := make(map[string]string) // where heartbeats of a ticket went
		for _, call := range s.Asked("await") {
			for _, ticket := range call.Args[3:] {
				at[ticket] = call.Args[1]
			}
		}
		if want := map[string]string{"ticket": "earlier", second.ticket: second.address}; !maps.Equal(at, want) {
			t.Errorf("tickets have their heartbeats at %q, want %q", at, want)
		}
		ln.Cancel(first)
		ln.Cancel(second)
	})
}

// TestCanceledAreForgotten: waiters that gave up are remembered for as long as a grant may come.
func TestCanceledAreForgotten(t *testing.T) {
	inLine(t, func(t *testing.T, ln *Line, _ *answers.Server) {
		for range 1000 {
			w, _ := enter(ln, mutex(t), time.Minute)
			ln.Cancel(w)
		}
		time.Sleep(ln.LiveFor + time.Minute)
		ln.mu.Lock()
		defer ln.mu.Unlock()
		check.Equal(t, len(ln.canceled), 0, "waiters that are remembered")
	})
}
