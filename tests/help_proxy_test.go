package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
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

// swallow drops one direction from now on: requests do not arrive, or replies are lost of what was executed.
func (p *proxy) swallow(direction string) {
	p.t.Helper()
	p.add("timeout", direction, `"timeout": 0`)
}

// delay holds up everything in one direction.
func (p *proxy) delay(direction string, d time.Duration) {
	p.t.Helper()
	attributes := fmt.Sprintf(`"latency": %d`, d.Milliseconds())
	if p.has("latency", direction) {
		p.update(direction, attributes)
		return
	}
	p.add("latency", direction, attributes)
}

// heal ends all harm. Connections that something was swallowed of are closed, as they are out of step.
//
// A delay is set to zero, and not removed: removing it can hang for ever if a connection ends in that moment
// (https://github.com/Shopify/toxiproxy/issues/558).
func (p *proxy) heal() {
	p.t.Helper()
	for _, direction := range []string{requests, replies} {
		if p.has("latency", direction) {
			p.update(direction, `"latency": 0`)
		}
		if !p.has("timeout", direction) {
			continue
		}
		if err := p.Toxics.RemoveToxic(context.Background(), "timeout "+direction); err != nil {
			p.t.Errorf("proxy: heal %s: %v", direction, err)
		}
	}
}

func (p *proxy) has(kind, direction string) bool { return p.Toxics.GetToxic(kind+" "+direction) != nil }

// update changes a delay.
func (p *proxy) update(direction, attributes string) {
	p.t.Helper()
	if _, err := p.Toxics.UpdateToxicJson("latency "+direction, strings.NewReader(`{"attributes": {`+attributes+`}}`)); err != nil {
		p.t.Errorf("proxy: update the delay of %s: %v", direction, err)
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
