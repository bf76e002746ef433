package redlatchweb

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/fleet"
)

// Handler is the dashboard. Make one with [New] and close it at the end.
type Handler struct {
	options  Options
	poller   *fleet.Poller
	release  releaseFunc // nil if viewers may change nothing
	inspect  func(ctx context.Context, name string) (redlatch.LockInfo, error)
	health   health
	handler  http.Handler
	renders  renders
	closing  context.Context
	close    context.CancelFunc
	patience time.Duration // how long a page waits for its first picture
	writing  time.Duration // how long a viewer may take to read what it is sent
	streams  atomic.Int64  // viewers that are sent events
	unlive   sync.Once     // tells that pages are not live
}

// releaseFunc is [redlatch.Client.ForceRelease].
type releaseFunc func(ctx context.Context, name string, o redlatch.ForceOptions) (redlatch.LockInfo, error)

// ServeHTTP answers a request whose path is relative to the dashboard's own; see http.StripPrefix.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.handler.ServeHTTP(w, r) }

// Close ends all streams and the poller. It returns when no look at Redis is under way. Requests
// that come later are answered with the last picture. An http.Server waits for streams in its
// Shutdown, so register Close with http.Server.RegisterOnShutdown, or call it before.
func (h *Handler) Close() {
	h.health.mu.Lock()
	h.close() // no examination begins after this
	h.health.mu.Unlock()
	h.poller.Close()
	h.health.running.Wait()
}

// picture returns what is known now, with what is of interest in it. It waits a moment for what is
// not known yet.
func (h *Handler) picture(ctx context.Context, in fleet.Interest) *fleet.Picture {
	stop := h.poller.Watch(in)
	defer stop()
	start := time.Now()
	last, _ := h.poller.Picture()
	seen := last.Taken // zero before the first look has ended
	if last.Err != nil {
		seen = last.Made
	}
	if in == (fleet.Interest{}) && time.Since(seen) < max(2*h.options.Interval, last.Pause+last.Took) {
		return last
	}
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	return h.poller.Await(ctx, start, in)
}
