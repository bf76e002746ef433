package redlatchweb

import (
	"context"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/fleet"
)

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
	h := &Handler{options: o, poller: fleet.NewPoller(source, o.Interval), patience: 1500 * time.Millisecond, writing: writeTimeout}
	h.closing, h.close = context.WithCancel(context.Background())
	if o.AllowRelease {
		h.release, h.inspect = release, source.Inspect
	}
	h.health.look = o.Doctor
	mux := http.NewServeMux()
	for _, p := range pages {
		mux.HandleFunc("GET /"+p.Path, func(w http.ResponseWriter, r *http.Request) { h.servePage(w, r, p) })
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { h.servePage(w, r, pages[0]) })
	mux.HandleFunc("GET /events", h.serveEvents)
	mux.HandleFunc("GET /assets/", serveAsset)
	mux.Handle("GET /metrics", h.newMetrics())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("POST /release", h.serveRelease)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) { h.noPage(w) })
	h.handler = h.guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "" { // asked for without the slash behind the prefix
			asked, _, _ := strings.Cut(r.RequestURI, "?")
			w.Header().Set("Location", "./"+path.Base(asked)+"/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return
		}
		if !clean(r.URL.EscapedPath()) { // the mux would lead to an address without the prefix
			h.noPage(w)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return h, nil
}

func (h *Handler) noPage(w http.ResponseWriter) {
	h.refuse(w, http.StatusNotFound, "There is no such page", "The menu above has all pages.")
}

// clean reports whether a path begins with a slash and has no empty elements, nor . or ..
func clean(asked string) bool {
	want := path.Clean(asked)
	if want != "/" && strings.HasSuffix(asked, "/") {
		want += "/"
	}
	return asked == want && strings.HasPrefix(asked, "/")
}
