package tests

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"

	"github.com/redlatch/redlatch/internal/redistest"
)

// The two directions of a proxy.
const (
	requests = "upstream"
	replies  = "downstream"
)

// proxy stands between clients and a server, and does harm.
type proxy struct {
	t testing.TB
	*toxiproxy.Proxy
}

// startProxy starts a proxy before a server. It is stopped with the test.
func startProxy(t testing.TB, s *redistest.Server) *proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &proxy{t, toxiproxy.NewProxy(server, "redis", "127.0.0.1:0", s.Addr())}
	if err := p.Start(); err != nil {
		t.Fatalf("proxy: %v", err)
	}
	t.Cleanup(p.Stop)
	return p
}

func (p *proxy) url() string { return "redis://" + p.Listen }

// swallow drops one direction from now on: requests do not arrive, or replies are lost of what was
// executed.
func (p *proxy) swallow(direction string) {
	p.t.Helper()
	p.add("timeout", direction, `"timeout": 0`)
}

// delay holds up everything in one direction.
func (p *proxy) delay(direction string, d time.Duration) {
	p.t.Helper()
	if p.Toxics.GetToxic("lag "+direction) == nil {
		p.add("lag", direction, "")
	}
	p.Toxics.GetToxic("lag " + direction).Toxic.(*lag).set(d)
}

// heal ends all harm. Connections that something was swallowed of are closed, as they are out of
// step.
func (p *proxy) heal() {
	p.t.Helper()
	for _, direction := range []string{requests, replies} {
		if delayed := p.Toxics.GetToxic("lag " + direction); delayed != nil {
			delayed.Toxic.(*lag).set(0)
		}
		if p.Toxics.GetToxic("timeout "+direction) == nil {
			continue
		}
		if err := p.Toxics.RemoveToxic(context.Background(), "timeout "+direction); err != nil {
			p.t.Errorf("proxy: heal %s: %v", direction, err)
		}
	}
}

// cut closes every connection; new ones are fine.
func (p *proxy) cut() {
	p.t.Helper()
	p.swallow(replies)
	p.heal()
}

func (p *proxy) add(kind, direction, attributes string) {
	p.t.Helper()
	toxic := fmt.Sprintf(`{"name": "%s %s", "type": %q, "stream": %q, "attributes": {%s}}`, kind, direction, kind, direction, attributes)
	if _, err := p.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		p.t.Errorf("proxy: add %s: %v", toxic, err)
	}
}

// lag delays what passes. Its delay can change while it is in use, also to zero: toxiproxy's own
// latency would have to be removed, which hangs for ever if a connection ends in that moment
// (https://github.com/Shopify/toxiproxy/issues/558).
type lag struct {
	mu      sync.Mutex // guards what is below
	delay   time.Duration
	changed chan struct{} // closed when delay changes; nil until the first look
}

func init() { toxics.Register("lag", new(lag)) }

// set changes the delay, also of what is being delayed already.
func (l *lag) set(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// now returns the delay, and a channel that is closed when it changes.
func (l *lag) now() (time.Duration, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.delay, l.changed
}

// Pipe implements [toxics.Toxic].
func (l *lag) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			interrupted := l.hold(chunk.Timestamp, stub.Interrupt)
			if stub.WriteOutput(chunk, 5*time.Second) != nil { // the other side has gone
				drain(stub)
				return
			}
			if interrupted {
				return
			}
		}
	}
}

// drain drops what still comes, until the connection ends.
func drain(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
		}
	}
}

// hold returns when what came at that time has been delayed. It reports whether it was interrupted
// before.
func (l *lag) hold(came time.Time, interrupt <-chan struct{}) (interrupted bool) {
	for {
		d, changed := l.now()
		left := d - time.Since(came)
		if left <= 0 {
			return false
		}
		select {
		case <-time.After(left):
			return false
		case <-changed:
		case <-interrupt:
			return true
		}
	}
}

// GetBufferSize implements [toxics.BufferedToxic]: what arrives meanwhile must not wait for the
// delay of what is before it.
func (l *lag) GetBufferSize() int { return 1024 }
