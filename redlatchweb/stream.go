package redlatchweb

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redlatch/redlatch/internal/fleet"
)

const (
	maxStreams   = 5000
	writeTimeout = 10 * time.Second // for a viewer that does not read
	idle         = 15 * time.Second // a stream that has nothing new says so; assets/app.js waits for a minute
	crowd        = 10 * time.Millisecond
)

// serveEvents sends the live parts of a page whenever they change, as server-sent events, until the
// viewer leaves or does not read. A viewer that is slow skips pictures. The more viewers there are,
// the longer a picture stays: a thousand of them get one every ten seconds.
func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	q, short := asked(r)
	pg, ok := pageAt(q.Get("page_of"))
	if !short || !ok || pg.Path == "lock" && q.Get("name") == "" {
		http.Error(w, "there is no such page", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead { // there is nothing to send, so that it would never end
		return
	}
	if h.streams.Add(1) > maxStreams {
		h.streams.Add(-1)
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many viewers", http.StatusServiceUnavailable)
		return
	}
	defer h.streams.Add(-1)
	q.Del("page_of")
	q.Del("pause")
	stop := h.poller.Watch(watches(pg, q))
	defer stop()
	w.Header().Set("X-Accel-Buffering", "no")
	s := &stream{w: w, patience: h.writing, control: http.NewResponseController(w), told: time.Now()}
	_ = s.control.SetReadDeadline(time.Time{}) // so that the server's own do not end the stream
	if err := s.begin(); errors.Is(err, errors.ErrUnsupported) {
		h.unlive.Do(func() {
			h.options.Log.Error("redlatchweb: pages are not live: middleware hides what the server's http.ResponseWriter can do; it needs Unwrap", "err", err)
		})
		http.Error(w, "the program that serves this page cannot send it live", http.StatusNotImplemented)
		return
	}
	if s.send([]byte("retry: 2000\n\n")) != nil {
		return
	}
	for {
		picture, next := h.poller.Picture()
		if known(picture, watches(pg, q)) {
			p, err := h.part(pg, picture, q)
			if err != nil {
				h.options.Log.Error("redlatchweb: a page cannot be rendered", "page", pg.Path, "err", err)
				return
			}
			if s.tell(p) != nil {
				return
			}
		}
		select {
		case <-time.After(max(min(h.options.Interval/2, idle), time.Duration(h.streams.Load())*crowd)):
		case <-r.Context().Done():
			return
		case <-h.closing.Done():
			// For the end of the stream, which the server sends.
			_ = s.control.SetWriteDeadline(time.Now().Add(s.patience))
			return
		}
		select {
		case <-next:
		case <-time.After(time.Second): // for the age of a picture that is old
		case <-r.Context().Done():
		case <-h.closing.Done():
		}
	}
}

// known reports whether there is anything to show yet.
func known(p *fleet.Picture, in fleet.Interest) bool {
	if in.Name != "" {
		l, err := p.Detail(in.Name)
		return l != nil || err != nil || p.Err != nil
	}
	return p.Number > 0
}

// stream is what one viewer was sent: the sums of it, as there may be thousands of viewers.
type stream struct {
	w               http.ResponseWriter
	control         *http.ResponseController
	status, content [sha256.Size]byte
	told            time.Time

	patience time.Duration // for a viewer that does not read
}

// tell sends what is new in p. The error says that the viewer is gone, or does not read.
func (s *stream) tell(p *part) error {
	var b bytes.Buffer
	if s.status != p.status.sum {
		event(&b, "status", p.status.html)
		s.status = p.status.sum
	}
	if s.content != p.content.sum {
		event(&b, "content", p.content.html)
		s.content = p.content.sum
	}
	if b.Len() == 0 {
		if time.Since(s.told) < idle {
			return nil
		}
		event(&b, "alive", []byte("yes"))
	}
	return s.send(b.Bytes())
}

// begin sends the header. The error matches [errors.ErrUnsupported] if w cannot flush, or has no deadlines:
// a viewer that does not read would keep the stream for good.
func (s *stream) begin() error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
		return err
	}
	return s.control.Flush()
}

func (s *stream) send(text []byte) error {
	s.told = time.Now()
	_ = s.control.SetWriteDeadline(time.Now().Add(s.patience))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	if err := s.control.Flush(); err != nil {
		return err
	}
	_ = s.control.SetWriteDeadline(time.Time{}) // over HTTP/2 it would end the stream, though there is nothing to send
	return nil
}

// event writes one event. Every line of its data begins with "data: ". To a browser a line ends at
// a carriage return, too: one in a value of HTML is spelled out.
func event(b *bytes.Buffer, name string, data []byte) {
	fmt.Fprintf(b, "event: %s\n", name)
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("&#13;"))
	for line := range bytes.Lines(data) {
		fmt.Fprintf(b, "data: %s\n", bytes.TrimRight(line, "\n"))
	}
	b.WriteString("\n")
}
