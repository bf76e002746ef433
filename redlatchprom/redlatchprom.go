// Package redlatchprom counts what happens to the locks of redlatch, for Prometheus:
//
//	metrics, err := redlatchprom.New(redlatchprom.Options{})
//	...
//	prometheus.MustRegister(metrics)
//	client, err := redlatch.Open(ctx, url, redlatch.Options{Hook: metrics.Hook, WrapConn: metrics.Conn})
//
// [Metrics.Hook] counts acquisitions and leases, [Metrics.Conn] the requests to Redis. [docs/observability.md]
// lists every metric, and the directory observability has alerts and a board for them. The module
// redlatchotel has the same metrics for OpenTelemetry, and traces.
//
// Names of locks are not labels: a program can have any number of them. [Options].Group counts by
// groups of names, and [Options].Exemplar attaches the name, or a trace's id, to single
// measurements.
//
// [docs/observability.md]: https://github.com/redlatch/redlatch/blob/main/docs/observability.md
package redlatchprom

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/groups"
)

// Options say what is counted. The zero value is right for most programs.
type Options struct {
	// Kinds are the kinds of locks whose series exist, at 0, before the first of them is acquired:
	// values of [redlatch.Event].Kind. The series of another kind exist, at 0, from its first
	// attempt on. Each kind has about 280 series, 230 of which are classic buckets. Default
	// "mutex". With Group, no series exist before the first attempt.
	Kinds []string

	// Group returns the group of a lock's name, such as "invoice" for "invoice:42". It is the value
	// of the label group. It must return the same for the same name each time. All names whose
	// group is not among the first 100 are counted as "other". It is called for each event, and
	// must not block. Default none, and no such label.
	Group func(name string) string

	// Exemplar returns the labels of an exemplar for the duration that the event reports: of an
	// acquisition (granted, failed) or of a lease (released, lost, detached). Nil stands for none.
	// An exemplar with invalid label names, with text that is not UTF-8, or with more than 128
	// characters in all is left out. Default none.
	Exemplar func(ctx context.Context, e redlatch.Event) prometheus.Labels
}

// Metrics is a [prometheus.Collector] of what its hook and connections are told. Several clients
// can share it. It is safe for concurrent use.
type Metrics struct {
	exemplar func(context.Context, redlatch.Event) prometheus.Labels
	groups   *groups.Groups[*series]
	families families
}

// New returns metrics that are not registered yet. The error matches [redlatch.ErrInvalid] if
// Options.Kinds has an unknown kind.
func New(o Options) (*Metrics, error) {
	if o.Kinds == nil {
		o.Kinds = []string{"mutex"}
	}
	for _, kind := range o.Kinds {
		if !slices.Contains(groups.Kinds, kind) {
			return nil, fmt.Errorf("redlatchprom: %w: Options.Kinds has %q: give some of %s",
				redlatch.ErrInvalid, kind, strings.Join(groups.Kinds, ", "))
		}
	}
	m := &Metrics{exemplar: o.Exemplar, families: newFamilies(o.Group != nil)}
	m.groups = groups.New(o.Group, m.families.of)
	m.groups.Begin(o.Kinds)
	return m, nil
}

// Hook counts an event. It is for [redlatch.Options.Hook]; to add other hooks, use
// [redlatch.JoinHooks]. It does not block.
func (m *Metrics) Hook(ctx context.Context, e redlatch.Event) {
	s := m.groups.Series(e.Name, e.Kind, e.Mode)
	switch e.Type {
	case redlatch.EventAttempt:
		s.acquiring.Inc()
	case redlatch.EventWait:
		s.queued.Inc()
	case redlatch.EventGranted:
		s.acquiring.Dec()
		s.held.Inc()
		m.observe(ctx, s.granted, e.Waited, e)
	case redlatch.EventFailed:
		s.acquiring.Dec()
		m.observe(ctx, s.acquire(e.Outcome), e.Waited, e)
	case redlatch.EventExtended:
		s.extended.Inc()
		s.margin.Observe(min(1, float64(e.Before)/float64(e.Given)))
		if groups.Aged(e.HeldFor, e.Given-e.Before) {
			s.age.Observe(e.HeldFor.Seconds())
		}
	case redlatch.EventExtendFailed:
		s.extendFailed.Inc()
	case redlatch.EventJeopardy:
		s.jeopardy.Inc()
	case redlatch.EventOutlived:
		s.outlived.Inc()
	case redlatch.EventForgotten:
		s.forgotten.Inc()
	case redlatch.EventUnreachable:
		s.outages.Inc()
	case redlatch.EventReachable:
		s.outagesOver.Inc()
	case redlatch.EventReleased:
		s.held.Dec()
		if e.Err != nil {
			s.releaseErrors.Inc()
		}
		if e.Kept {
			s.kept.Inc()
		}
		m.observe(ctx, s.released, e.HeldFor, e) // last: Exemplar may panic
	case redlatch.EventUnkept:
		s.kept.Dec()
	case redlatch.EventLost:
		s.held.Dec()
		s.lostFor(e.Reason).Inc()
		m.observe(ctx, s.lost, e.HeldFor, e)
	case redlatch.EventDetached:
		s.held.Dec()
		m.observe(ctx, s.detached, e.HeldFor, e)
	}
}

// observe counts a duration, with an exemplar if there is one.
func (m *Metrics) observe(ctx context.Context, h prometheus.Observer, d time.Duration, e redlatch.Event) {
	if m.exemplar != nil {
		if labels := m.exemplar(ctx, e); len(labels) > 0 && valid(labels) {
			h.(prometheus.ExemplarObserver).ObserveWithExemplar(d.Seconds(), labels)
			return
		}
	}
	h.Observe(d.Seconds())
}

// Conn returns a connection that does what c does, and counts its requests. It is for
// [redlatch.Options.WrapConn], or for what is given to [redlatch.New] and [redlatch.NewQuorum].
func (m *Metrics) Conn(c conn.Conn) conn.Conn {
	server := strings.ToValidUTF8(c.Target().Addr, "?")
	durations := make(map[conn.RequestResult]prometheus.Observer)
	for _, result := range conn.RequestResults() {
		durations[result] = m.families.request.WithLabelValues(server, string(result))
	}
	resends := m.families.resends.WithLabelValues(server)
	return conn.Observe(c, func(_ context.Context, r conn.Request) {
		durations[r.Result].Observe(r.Took.Seconds())
		if r.Resent > 0 {
			resends.Add(float64(r.Resent))
		}
	})
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.families.all {
		c.Describe(to)
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.families.all {
		c.Collect(to)
	}
}

// valid reports whether an exemplar may have these labels.
func valid(labels prometheus.Labels) bool {
	runes := 0
	for name, value := range labels {
		reserved := strings.HasPrefix(name, model.ReservedLabelPrefix)
		if reserved || !model.LegacyValidation.IsValidLabelName(name) || !utf8.ValidString(value) {
			return false
		}
		runes += utf8.RuneCountInString(name) + utf8.RuneCountInString(value)
	}
	return runes <= prometheus.ExemplarMaxRunes
}
