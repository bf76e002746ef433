package line

import (
	"context"
	"sync/atomic"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
)

// mostHeeded is how many channels of other libraries a client listens to at once: each may take a
// connection of its own. The first in line still asks ten times a second.
const mostHeeded = 64

// heedLocked has the client of the first in line listen for the announcement of a release while the
// holder is of another library. It listens where any of the poller's waiters expects it, until none
// of them is left: the next holder may be of such a library again. The caller holds ln.mu.
func (ln *Line) heedLocked(p *poller, behindForeign bool) {
	p.behindForeign = behindForeign
	if !behindForeign {
		return
	}
	for w := range p.waiters {
		a := channel{w.lock.Neighbours.Channel, w.lock.Neighbours.Sharded}
		if a.name == "" || p.heeding[a] != nil || ln.heeded >= mostHeeded {
			continue
		}
		ctx, stop := context.WithCancel(ln.Closing)
		p.heeding[a] = stop
		ln.heeded++
		ln.Go(func() {
			defer func() {
				ln.mu.Lock()
				defer ln.mu.Unlock()
				ln.heeded--
			}()
			ln.Heed(ctx, a.name, a.sharded, func() {
				if ctx.Err() == nil {
					ln.pollAnnounced(p)
				}
			})
		})
	}
}

// pollAnnounced has a poller whose first waiter stands behind a foreign holder poll at once.
func (ln *Line) pollAnnounced(p *poller) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	switch {
	case !p.behindForeign || len(p.waiters) == 0:
	case p.polling: // that poll may have come before the release
		p.again = true
	default:
		ln.pollNowLocked(p)
	}
}

// Heed listens to a channel until ctx is done, such as that of an announcement. It calls heard for
// each message and when it begins to listen, since a message may have been published before. Any
// message counts, whatever it says: at worst the caller asks once more.
func (ln *Line) Heed(ctx context.Context, name string, sharded bool, heard func()) {
	for n := 0; ctx.Err() == nil; n++ {
		subscribe := ln.Conn.Subscribe
		if shards, ok := ln.Conn.(conn.Sharded); ok && sharded && ln.Listener.Sharded() {
			subscribe = shards.SubscribeSharded
		}
		var up atomic.Bool // of this subscription: an adapter may still call when it has ended
		_ = subscribe(ctx, name, func() {
			up.Store(true)
			heard()
		}, func(string) { heard() }) // why it ended does not matter: the caller polls, too
		if up.Load() {
			n = 0
		}
		retry.Sleep(ctx, retry.Pause(n))
	}
}
