package wire

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// ear is a subscription at the client.
type ear struct {
	Link    *Link
	channel string
	sharded bool
	message func(payload string) // has the client hear one; set when the subscription has arrived
	last    time.Duration        // when the last message arrives: messages stay in order
	sub     *subscription        // at the server; nil before it has arrived there, and after its end

	mu    sync.Mutex // guards what is below
	inbox []func()
	over  error
	news  chan struct{} // has room for one
}

func (e *ear) put(do func()) {
	e.mu.Lock()
	e.inbox = append(e.inbox, do)
	e.mu.Unlock()
	e.ring()
}

func (e *ear) ring() {
	select {
	case e.news <- struct{}{}:
	default:
	}
}

// end ends the subscription at the client. It is called on the network's goroutine.
func (e *ear) end(why error) {
	e.Link.Ears = slices.DeleteFunc(e.Link.Ears, func(o *ear) bool { return o == e })
	e.mu.Lock()
	e.over = cmp.Or(e.over, why)
	e.mu.Unlock()
	e.ring()
}

// hear delivers a message or a confirmation to the client, after earlier ones.
func (e *ear) hear(do func()) {
	l := e.Link
	if l.Gone || l.Deaf || l.State == Silent || l.Random.Float64() < l.Loses {
		l.Net.tell("  a message to %s is lost", l)
		return
	}
	e.last = max(e.last, l.Net.Now()+l.Delay.Draw(l.Random))
	l.Net.After(e.last-l.Net.Now(), func() { l.arrive(func() { e.put(do) }) })
}

// Subscribe implements [conn.Conn].
func (l *Link) Subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error {
	return l.listen(ctx, &ear{Link: l, channel: channel}, up, message)
}

// listen subscribes, and returns when the subscription has ended.
func (l *Link) listen(ctx context.Context, e *ear, up func(), message func(payload string)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e.news = make(chan struct{}, 1)
	l.Net.post(&letter{l.Number, "subscribe " + e.channel, func() {
		if l.Mute {
			l.Net.After(l.Delay.Draw(l.Random), func() { e.end(errRefused) })
			return
		}
		l.Ears = append(l.Ears, e)
		l.out(func() { l.Server.listen(e, up, message) }, e.end)
	}})
	defer l.Net.post(&letter{l.Number, "unsubscribe " + e.channel, func() {
		e.end(errDone)
		l.out(func() { l.Server.Forget(e) }, func(error) { l.Server.Forget(e) })
	}})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.news:
		}
		e.mu.Lock()
		inbox, over := e.inbox, e.over
		e.inbox = nil
		e.mu.Unlock()
		for _, do := range inbox {
			do()
		}
		if over != nil {
			return over
		}
	}
}
