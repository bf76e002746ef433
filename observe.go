package redlatch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/line"
)

// Observe returns a channel of leaders: first the leader of now, then each change, as
// [Election.Leader] tells it. A [Leader] whose Term is 0 says that there is none. A leader that
// changes its value comes again, with the same Term. A slow reader misses leaders that were
// followed by others, and always gets the last one. Redis pushes changes. The end of a leader that
// died is found when its lease ends.
//
// The channel is closed when ctx is done or the client is closed, and at once if the election has
// an invalid name. While Redis does not answer, or the name is in use for something else, nothing
// comes.
func (e *Election) Observe(ctx context.Context) <-chan Leader {
	leaders := make(chan Leader)
	c := e.latch.client
	if e.latch.invalid != nil || c.enter() != nil {
		close(leaders)
		return leaders
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.closing, cancel)
	changed := make(chan struct{}, 1)
	c.spawn(func() { e.follow(ctx, changed) })
	go func() {
		defer c.background.Done()
		defer stop()
		defer cancel()
		defer close(leaders)
		e.report(ctx, changed, leaders)
	}()
	return leaders
}

// follow keeps a subscription to the changes up until ctx is done.
func (e *Election) follow(ctx context.Context, changed chan<- struct{}) {
	poke := func() {
		select {
		case changed <- struct{}{}:
		default: // one is waiting to be looked at
		}
	}
	for n := 0; ctx.Err() == nil; n++ {
		var up atomic.Bool // of this subscription: an adapter may still call when it has ended
		// Why it ended does not matter: look asks now and then, too, and gets the error.
		_ = e.latch.client.conn.Subscribe(ctx, e.latch.Keys.Changes(), func() {
			up.Store(true)
			poke() // there may have been a change while the client did not listen
		}, func(string) { poke() })
		if up.Load() {
			n = 0
		}
		retry.Sleep(ctx, retry.Pause(n))
	}
}

// report sends the leader whenever it is another than the one before, until ctx is done.
func (e *Election) report(ctx context.Context, changed <-chan struct{}, leaders chan<- Leader) {
	var leader, sent Holder
	never := true
	for {
		next, again := e.look(ctx, leader)
		leader = next
		to := leaders
		if !never && leader.Owner == sent.Owner && leader.Token == sent.Token && leader.Value == sent.Value || ctx.Err() != nil {
			to = nil
		}
		timer := time.NewTimer(again)
		select {
		case to <- leader.leader():
			sent, never = leader, false
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// look returns the leader, and when to look again if nothing is heard; the leader of before if
// Redis does not tell.
func (e *Election) look(ctx context.Context, before Holder) (leader Holder, again time.Duration) {
	c := e.latch.client
	leader, err := e.leading(ctx)
	switch {
	case err == nil && leader.Remaining >= 0:
		return leader, min(leader.Remaining+line.PollAfterExpiry, c.liveFor())
	case err == nil || errors.Is(err, ErrNotHeld):
		return leader, c.liveFor()
	}
	return before, retry.Jitter(line.PollDisconnected, 0.3)
}
