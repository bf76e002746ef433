package kinds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestObserveIgnoresLateConfirmations has a connection over which each subscription fails, and tells
// only afterwards that it was confirmed. The observer must not take that for the next one, to which
// it would never come with longer pauses. With -race it also finds what both goroutines write.
func TestObserveIgnoresLateConfirmations(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		over := &wire.Belated{Conn: s.Conn(), Tried: make(chan struct{}, 1000)}
		t.Cleanup(over.Calls.Wait)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		leaders := wire.Wrap(t, over, help.Brisk(help.Lasting)).Election("e").Observe(ctx)
		help.Receive(t, leaders, "that no process leads")
		const tries = 10
		for range tries {
			help.Receive(t, over.Tried, "the next subscription")
		}
		// Nine pauses that double from 20ms to 640ms, each half as long at least.
		if took := time.Since(start); took < 1200*time.Millisecond {
			t.Errorf("%d subscriptions that failed were tried within %v, want longer and longer pauses", tries, took)
		}
		cancel()
		help.ClosesSoon(t, leaders)
	})
}

// TestElectionRun: who loses leadership stops and campaigns anew; and it resigns when its work has
// returned, not when it is told to stop.
func TestElectionRun(t *testing.T) {
	t.Parallel()
	s, c, admin := locktest.StartTwo(t, help.Brisk(help.Lasting))
	ctx, cancel := context.WithCancel(t.Context())
	terms, stop := make(chan *redlatch.Lease), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		result <- c.Election("e").Run(ctx, "me", func(ctx context.Context, term *redlatch.Lease) error {
			terms <- term
			<-ctx.Done()
			if context.Cause(ctx) == context.Canceled {
				<-stop
			}
			return help.ErrFailed
		})
	}()
	first := help.Receive(t, terms, "the first term")
	token := first.Token()
	check.OK(t, "ForceRelease", check.ErrorOf(admin.ForceRelease(t.Context(), "e", redlatch.ForceOptions{})))
	check.Error(t, "Extend of a term that was ended by force", first.Extend(t.Context()), redlatch.ErrNotHeld)
	second := help.Receive(t, terms, "the second term")
	check.That(t, second.Token() > token, "term %d after %d, want more", second.Token(), token)
	cancel()
	<-second.Context().Done()
	if leader, err := admin.Election("e").Leader(t.Context()); err != nil || leader.Term != second.Token() {
		t.Errorf("Leader while the work goes on = %+v, %v, want the one who works", leader, err)
	}
	close(stop)
	check.Error(t, "Run", help.Receive(t, result, "Run"), help.ErrFailed)
	help.WantNothingLeft(t, s, "e")
}

// TestWhatElectionRunReturns: not the result of a term that was lost, also if the context is done by then;
// but the error of work that lost another lock, in a term that goes on. It does not call that again and again.
func TestWhatElectionRunReturns(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Brisk(help.Lasting))
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Election("e").Run(ctx, "me", func(context.Context, *redlatch.Lease) error {
		s.Do("DEL", locktest.StateKey("e"))
		cancel()
		return nil
	})
	check.Error(t, "Run whose term was lost", err, context.Canceled)
	runs := 0
	err = c.Election("e").Run(t.Context(), "me", func(ctx context.Context, term *redlatch.Lease) error {
		if runs++; runs > 1 {
			return help.ErrFailed
		}
		inner := locktest.Lock(t, c.Mutex("inner"))
		s.Do("DEL", locktest.StateKey("inner"))
		err := inner.Extend(ctx)
		check.That(t, term.Held(), "the term is lost: %v", term.Err())
		return fmt.Errorf("step 3: %w", err)
	})
	if lost := (*redlatch.LostError)(nil); runs != 1 || !errors.As(err, &lost) || lost.Name != "inner" {
		t.Errorf("Run = %v after %d calls of the work, want the LostError of inner after 1", err, runs)
	}
	help.WantNothingLeft(t, s, "e")
}

// TestElectionRunOutlastsAnOutage: who led before it leads after it, and no process has to start Run again.
func TestElectionRunOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, terms := s.Client(t, redlatch.Options{}), 0
		err := c.Election("e").Run(t.Context(), "me", func(ctx context.Context, _ *redlatch.Lease) error {
			if terms++; terms == 1 {
				s.Hang()
				time.AfterFunc(5*time.Minute, s.Resume)
				<-ctx.Done()
			}
			return help.ErrFailed
		})
		check.Error(t, "Run", err, help.ErrFailed)
		check.Equal(t, terms, 2, "terms")
	})
}

// TestJobThatFails: a run that failed, panicked or released its own lease uses its window up as any other.
func TestJobThatFails(t *testing.T) {
	t.Parallel()
	_, c := locktest.Start(t, help.Brisk(help.Lasting))
	hourly := redlatch.JobOptions{Window: time.Hour}
	once := c.Job("once", hourly)
	check.That(t, help.RunJob(t, once, help.ErrFailed) && !help.RunJob(t, once, nil), "want one run, which failed, and no other")
	if left, _ := c.Inspect(t.Context(), "once"); len(left.Holders) != 1 || !left.Holders[0].Resting || left.Remaining <= 59*time.Minute {
		t.Errorf("Inspect = %+v, want a window of nearly an hour", left)
	}
	ran, err := c.Job("leaves", hourly).Do(t.Context(), func(ctx context.Context, l *redlatch.Lease) error { return l.Release(ctx) })
	check.That(t, ran && err == nil && !help.RunJob(t, c.Job("leaves", hourly), nil), "a run that released its own lease = %t, %v, or another followed", ran, err)
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Job("panics", hourly).Do(t.Context(), func(context.Context, *redlatch.Lease) error { panic("so it does") })
	}()
	check.That(t, !help.RunJob(t, c.Job("panics", hourly), nil), "another run in the window of one that panicked")
}

// TestObserveInAnOutage: nothing is told as long as nothing is known.
func TestObserveInAnOutage(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		term := check.Value(s.Client(t, redlatch.Options{}).Election("e").Campaign(t.Context(), "me")).OK(t)
		s.Hang()
		time.AfterFunc(time.Minute, s.Resume)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		leader := <-s.Client(t, redlatch.Options{}).Election("e").Observe(ctx)
		check.That(t, leader.Value == "me" || term.Err() != nil, "told %+v first, want the leader", leader)
	})
}

// TestObserverThatHearsNothing: each change comes, within three heartbeats.
func TestObserverThatHearsNothing(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		link := &wire.Lossy{Conn: s.Conn(), Hits: wire.None}
		link.Mute(true)
		leaders, e := wire.Wrap(t, link, redlatch.Options{}).Election("e").Observe(t.Context()), s.Client(t, redlatch.Options{}).Election("e")
		want := func(value string, change func()) {
			t.Helper()
			change()
			changed := time.Now()
			check.Equal(t, (<-leaders).Value, value, "the leader")
			check.That(t, time.Since(changed) <= 15*time.Second, "it was told after %v", time.Since(changed))
		}
		var term *redlatch.Lease
		want("", func() {})
		want("before", func() { term = help.Campaign(t, e, "before") })
		want("after", func() { check.OK(t, "Proclaim", e.Proclaim(t.Context(), term, "after")) })
		want("", func() { locktest.Release(t, term) })
	})
}

// TestLeaseOfAnotherClient: it is on the right lock, so the error says what is wrong with it.
func TestLeaseOfAnotherClient(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, other := s.Client(t, redlatch.Options{}), s.Client(t, redlatch.Options{})
		term := help.Campaign(t, c.Election("e"), "me")
		write := check.Value(c.RWMutex("m").Lock(t.Context())).OK(t)
		for what, err := range map[string]error{
			"Proclaim":  other.Election("e").Proclaim(t.Context(), term, "you"),
			"Downgrade": check.ErrorOf(other.RWMutex("m").Downgrade(t.Context(), write)),
		} {
			check.Error(t, what, err, redlatch.ErrInvalid)
			check.That(t, strings.Contains(err.Error(), "of this client"), "%s = %v", what, err)
		}
		locktest.Release(t, term)
		locktest.Release(t, write)
	})
}

// TestManyObserversOfOneClient: they share a subscription, which has a connection of its own. It ends with
// the last of them, and each is told of every leader.
func TestManyObserversOfOneClient(t *testing.T) {
	t.Parallel()
	const n = 20
	s, c, other := locktest.StartTwo(t, help.Sluggish())
	listening := func(want string) {
		t.Helper()
		channel := locktest.SiblingKey("e", "changes")
		locktest.Eventually(t, want+" subscriptions", func() bool { return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", channel), want) })
	}
	var stops []context.CancelFunc
	observe := func() <-chan redlatch.Leader {
		ctx, cancel := context.WithCancel(t.Context())
		stops = append(stops, cancel)
		return c.Election("e").Observe(ctx)
	}
	for range 2 {
		before := help.Connections(s)
		var observers []<-chan redlatch.Leader
		for range n {
			observers = append(observers, observe())
			check.Equal(t, help.Receive(t, observers[len(observers)-1], "that no process leads").Term, 0, "the first term")
		}
		listening("1")
		check.That(t, help.Connections(s) < before+n/2, "%d connections, and %d before", help.Connections(s), before)
		term := check.Value(other.Election("e").Campaign(t.Context(), "me")).OK(t)
		for i, leaders := range observers {
			check.Equal(t, help.Receive(t, leaders, "the leader").Value, "me", "the leader")
			if i%2 == 1 {
				stops[len(stops)-n+i]() // the others go on
				help.ClosesSoon(t, leaders)
			}
		}
		locktest.Release(t, term)
		for i, leaders := range observers {
			if i%2 == 0 {
				check.Equal(t, help.Receive(t, leaders, "that no process leads").Term, 0, "the last term")
			}
		}
		for _, stop := range stops {
			stop()
		}
		listening("0")
	}
}

// quorumElection returns nodes in memory, a client of them, and what it observes of the election e: no
// leader so far. Every node has counted a term.
func quorumElection(t *testing.T) (nodes []*memory.Server, conns []conn.Conn, c *redlatch.Client, leaders <-chan redlatch.Leader) {
	nodes, conns = memory.Nodes(t, 3)
	c = wire.WrapQuorum(t, conns, redlatch.Options{})
	locktest.Release(t, check.Value(c.Election("e").Campaign(t.Context(), "before")).OK(t))
	leaders = c.Election("e").Observe(t.Context())
	check.Equal(t, help.Receive(t, leaders, "the first word").Term, 0, "the term")
	return nodes, conns, c, leaders
}

// candidate returns a client that has written its record, so no request for a vote leaves with that.
func candidate(t *testing.T, over []conn.Conn) *redlatch.Client {
	c := wire.WrapQuorum(t, over, redlatch.Options{})
	locktest.Release(t, locktest.Lock(t, c.Mutex("before")))
	time.Sleep(time.Second)
	return c
}

// campaignWithout has a candidate count at all nodes but these.
func campaignWithout(t *testing.T, conns []conn.Conn, lost ...int) {
	over := slices.Clone(conns)
	for _, i := range lost {
		over[i] = &wire.Answered{Conn: conns[i], Script: "election vote", Lost: true}
	}
	c := candidate(t, over)
	if term, err := c.Election("e").TryCampaign(t.Context(), "brief"); err == nil {
		locktest.Release(t, term)
	}
	time.Sleep(time.Minute) // until all that this left behind is gone
}

// TestObserveATermThatNodesTellDifferently: the nodes that answer do not agree, since one came late. An
// observer that knows the term is told no other.
func TestObserveATermThatNodesTellDifferently(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, conns, c, leaders := quorumElection(t)
		campaignWithout(t, conns, 1)
		term := check.Value(c.Election("e").Campaign(t.Context(), "me")).OK(t)
		for help.Receive(t, leaders, "the leader").Term != term.Token() { // as long as not all have voted
		}
		time.Sleep(time.Second) // until every node has voted
		nodes[0].Hang()
		select {
		case leader := <-leaders:
			t.Errorf("the observer is told %+v, in the term %d", leader, term.Token())
		case <-time.After(time.Minute):
		}
		leader, err := c.Election("e").Leader(t.Context())
		check.That(t, err == nil && leader.Term <= term.Token(), "Leader = %+v, %v, want no more than the term %d", leader, err, term.Token())
		nodes[0].Resume()
	})
}

// TestLeaderWhomTooFewNodesTell: one node has lost its data, and another does not answer. It may be
// that the leader leads, as it does.
func TestLeaderWhomTooFewNodesTell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, _, c, leaders := quorumElection(t)
		term := check.Value(c.Election("e").Campaign(t.Context(), "me")).OK(t)
		check.Equal(t, help.Receive(t, leaders, "the leader").Term, term.Token(), "the term")
		var taken *redlatch.TakenError
		_, err := c.Election("e").TryCampaign(t.Context(), "other")
		check.Must(t, errors.As(err, &taken), "TryCampaign = %v, want a TakenError", err)
		time.Sleep(time.Second) // until every node has voted
		nodes[1].Hang()
		nodes[2].LoseEverything()
		check.Error(t, "Leader", check.ErrorOf(c.Election("e").Leader(t.Context())), redlatch.ErrUnreachable)
		check.Error(t, "ForceRelease", check.ErrorOf(c.ForceRelease(t.Context(), "e", redlatch.ForceOptions{})), redlatch.ErrUnreachable)
		check.Equal(t, taken.Describe(t.Context()), taken.Error(), "Describe")
		info, err := c.Inspect(t.Context(), "e")
		check.That(t, err == nil && errors.Is(info.Doubt, redlatch.ErrUnreachable), "Inspect = %+v, %v, want a Doubt", info, err)
		listed := 0
		for info, err := range c.List(t.Context(), redlatch.ListOptions{Pattern: "e"}) {
			listed++
			check.That(t, err == nil && info.Name == "e" && errors.Is(info.Doubt, redlatch.ErrUnreachable), "List visits %+v, %v, want e with a Doubt", info, err)
		}
		check.Equal(t, listed, 1, "names listed")
		select {
		case leader := <-leaders:
			t.Errorf("the observer is told %+v, in the term %d", leader, term.Token())
		case <-time.After(16 * time.Second): // in which it looks
		}
		check.That(t, term.Held(), "the term is over: %v", term.Err())
		nodes[1].Resume()
		locktest.Release(t, term)
		check.Equal(t, help.Receive(t, leaders, "the end").Term, 0, "the term")
	})
}

// TestLeaderWhomMostNodesForgot: two of three nodes have lost their data, and answer. No candidate can lead
// before they have rested, and it may be that the leader leads, as it does.
func TestLeaderWhomMostNodesForgot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, _, c, leaders := quorumElection(t)
		term := check.Value(c.Election("e").Campaign(t.Context(), "me")).OK(t)
		check.Equal(t, help.Receive(t, leaders, "the leader").Term, term.Token(), "the term")
		_, err := c.Mutex("m").TryLock(t.Context())
		check.OK(t, "TryLock", err)
		time.Sleep(time.Second) // until every node has voted
		nodes[1].LoseEverything()
		nodes[2].LoseEverything()
		check.Error(t, "Leader", check.ErrorOf(c.Election("e").Leader(t.Context())), redlatch.ErrUnreachable)
		check.Error(t, "Leader of another", check.ErrorOf(c.Election("o").Leader(t.Context())), redlatch.ErrUnreachable)
		check.Error(t, "ForceRelease", check.ErrorOf(c.ForceRelease(t.Context(), "e", redlatch.ForceOptions{})), redlatch.ErrUnreachable)
		for _, name := range []string{"e", "o"} {
			info, err := c.Inspect(t.Context(), name)
			check.That(t, err == nil && errors.Is(info.Doubt, redlatch.ErrUnreachable), "Inspect = %+v, %v, want a Doubt", info, err)
			check.That(t, (info.Kind == "election") == (name == "e"), "the kind of %s is %q", name, info.Kind)
		}
		check.That(t, term.Held(), "the term is over: %v", term.Err())
		select {
		case leader := <-leaders:
			t.Errorf("the observer is told %+v, in the term %d", leader, term.Token())
		case <-time.After(7 * time.Second): // in which it looks
		}
		_, err = c.Election("o").TryCampaign(t.Context(), "") // which lets the nodes begin their rest
		check.Error(t, "TryCampaign", err, redlatch.ErrUnreachable)
		time.Sleep(time.Minute)
		check.Error(t, "Leader after the rest", check.ErrorOf(c.Election("o").Leader(t.Context())), redlatch.ErrNotHeld)
	})
}

// TestVotesAreAskedForOnDemand: a look over a quorum asks the nodes for their votes only where a holder may
// be missing, once each.
func TestVotesAreAskedForOnDemand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, conns := memory.Nodes(t, 3)
		counted := make([]*wire.Counting, len(conns))
		for i, c := range conns {
			counted[i] = &wire.Counting{Conn: c}
			conns[i] = counted[i]
		}
		asked := func() (n int) {
			for _, c := range counted {
				n += c.Count("epoch")
			}
			return n
		}
		e := wire.WrapQuorum(t, conns, redlatch.Options{}).Election("e")
		term := check.Value(e.Campaign(t.Context(), "me")).OK(t)
		time.Sleep(time.Second) // until every node has voted
		before := asked()
		check.Equal(t, check.Value(e.Leader(t.Context())).OK(t).Term, term.Token(), "the term")
		check.Equal(t, asked()-before, 0, "votes asked for while there is a leader")
		locktest.Release(t, term)
		check.Error(t, "Leader", check.ErrorOf(e.Leader(t.Context())), redlatch.ErrNotHeld)
		check.Equal(t, asked()-before, 3, "votes asked for while there is none")
	})
}

// TestRunBesideTheWindowOfAnother: a node has the window of a run that came to nothing there, and another
// does not answer. It may be that a job runs, as it does.
func TestRunBesideTheWindowOfAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, conns := memory.Nodes(t, 3)
		c := wire.WrapQuorum(t, conns, redlatch.Options{})
		ran, err := c.Job("j", redlatch.JobOptions{Window: time.Hour}).Do(t.Context(), func(ctx context.Context, run *redlatch.Lease) error {
			time.Sleep(time.Second) // until every node has voted
			check.Equal(t, nodes[2].Do("ZREM", "redlatch:j", run.Owner()), "1", "runs taken out")
			nodes[0].Hang()
			defer nodes[0].Resume()
			info, err := c.Inspect(ctx, "j")
			check.That(t, err == nil && errors.Is(info.Doubt, redlatch.ErrUnreachable), "Inspect = %+v, %v, want a Doubt", info, err)
			return nil
		})
		check.That(t, ran && err == nil, "Do = %t, %v", ran, err)
	})
}
