package redlatchweb

import (
	"context"
	"net/http"
	"path"
	"strings"
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
	health   health
	metrics  http.Handler
	handler  http.Handler
	renders  renders
	closing  context.Context
	close    context.CancelFunc
	patience time.Duration // how long a page waits for its first picture
	writing  time.Duration // how long a viewer may take to read what it is sent
	streams  atomic.Int64  // viewers that are sent events
}

// releaseFunc is [redlatch.Client.ForceRelease].
type releaseFunc func(ctx context.Context, name string, o redlatch.ForceOptions) (redlatch.LockInfo, error)

// New returns the dashboard of all names under the client's prefix. It sends nothing until a viewer
// comes. The error matches redlatch.ErrInvalid.
//
// The client is the caller's to close, after the handler.
func New(client *redlatch.Client, o Options) (*Handler, error) {
	return newHandler(client, client.ForceRelease, o)
}

func newHandler(source fleet.Source, release releaseFunc, o Options) (*Handler, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &Handler{options: o, poller: fleet.NewPoller(source, fleet.Options{Interval: o.Interval}), patience: 1500 * time.Millisecond, writing: writeTimeout}
	h.closing, h.close = context.WithCancel(context.Background())
	if o.AllowRelease {
		h.release = release
	}
	h.health.look = o.Doctor
	h.metrics = h.newMetrics()
	mux := http.NewServeMux()
	for _, p := range pages {
		mux.HandleFunc("GET /"+p.Path, func(w http.ResponseWriter, r *http.Request) { h.servePage(w, r, p) })
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { h.servePage(w, r, pages[0]) })
	mux.HandleFunc("GET /events", h.serveEvents)
	mux.HandleFunc("GET /assets/", serveAsset)
	mux.Handle("GET /metrics", h.metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("POST /release", h.serveRelease)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		h.refuse(w, http.StatusNotFound, "There is no such page", "The menu above has all pages.")
	})
	h.handler = h.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "" { // asked for without the slash behind the prefix
			asked, _, _ := strings.Cut(r.RequestURI, "?")
			w.Header().Set("Location", "./"+path.Base(asked)+"/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return h, nil
}

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
	if last, _ := h.poller.Picture(); in == (fleet.Interest{}) && (time.Since(last.Made) < 2*h.options.Interval || time.Since(last.Taken) < last.Pause+last.Took) {
		return last
	}
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	return h.poller.Await(ctx, start, in)
}
