package redlatchprom

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/groups"
)

// The name of a metric is also in redlatchotel/instruments.go, observability/,
// docs/observability.md, docs/operations.md and docs/glossary.md. Those of the dashboard are in
// redlatchweb/metrics.go. The numbers come from Metrics.Hook and Metrics.Conn, in redlatchprom.go.

// families are the metrics, each with all of its series.
type families struct {
	all                                              []prometheus.Collector
	acquire, hold, age, margin, request              *prometheus.HistogramVec
	queued, extends, jeopardy, lost, errors, resends *prometheus.CounterVec
	stray, outages                                   *prometheus.CounterVec
	acquiring, held, kept                            *prometheus.GaugeVec
}

// newFamilies returns metrics without series, except for that of the build.
func newFamilies(grouped bool) families {
	var f families
	labels := func(more ...string) []string {
		all := []string{"kind", "mode"}
		if grouped {
			all = append(all, "group")
		}
		return append(all, more...)
	}
	histogram := func(name, help string, buckets []float64, labels []string) *prometheus.HistogramVec {
		// The buckets are for servers that do not take native histograms.
		o := prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
		if !strings.HasPrefix(name, "redlatch_extend_") { // which a process with many leases observes all the time
			o.NativeHistogramBucketFactor = 1.1
			o.NativeHistogramMaxBucketNumber = 100
			o.NativeHistogramMinResetDuration = time.Hour
		}
		v := prometheus.NewHistogramVec(o, labels)
		f.all = append(f.all, v)
		return v
	}
	counter := func(name, help string, labels []string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		f.all = append(f.all, v)
		return v
	}
	gauge := func(name, help string, labels []string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		f.all = append(f.all, v)
		return v
	}
	f.acquire = histogram("redlatch_acquire_duration_seconds", "Time that acquisitions took, by how they ended.", groups.AcquireBounds, labels("outcome"))
	f.queued = counter("redlatch_acquire_queued_total", "Acquisitions that found the lock taken and waited in line.", labels())
	f.acquiring = gauge("redlatch_acquiring", "Acquisitions under way.", labels())
	f.held = gauge("redlatch_held", "Leases that this process holds.", labels())
	f.kept = gauge("redlatch_kept", "Locks that this process keeps without a lease, for its next acquisitions.", labels())
	f.hold = histogram("redlatch_hold_duration_seconds", "Time that leases were held, by how they ended.", groups.HoldBounds, labels("end"))
	f.age = histogram("redlatch_extend_age_seconds", "Age of held leases at an extend, once per minute of age.", groups.AgeBounds, labels())
	f.margin = histogram("redlatch_extend_margin_ratio", "Fraction of the lease that was left when a confirmed extend was sent.", groups.MarginBounds, labels())
	f.extends = counter("redlatch_extends_total", "Extends, by whether Redis confirmed them.", labels("result"))
	f.jeopardy = counter("redlatch_jeopardy_total", "Leases that went into jeopardy: held, but not extended in time.", labels())
	f.lost = counter("redlatch_lost_total", "Leases that were lost, by the reason.", labels("reason"))
	f.stray = counter("redlatch_stray_total", "Leases that are extended though no code may release them, by how that was found.", labels("cause"))
	f.outages = counter("redlatch_outages_total", "Outages of Redis that callers in line met, by whether they begin or are over.", labels("phase"))
	f.errors = counter("redlatch_release_errors_total", "Releases that Redis did not confirm.", labels())
	f.request = histogram("redlatch_request_duration_seconds", "Time that requests to Redis took, by server and result.", groups.RequestBounds, []string{"server", "result"})
	f.resends = counter("redlatch_request_resends_total", "Calls that were sent again, since an earlier request got no usable answer.", []string{"server"})
	build := gauge("redlatch_build_info", "Always 1; the labels show the versions of redlatch and Go.", []string{"version", "goversion"})
	build.WithLabelValues(groups.Version()).Set(1)
	return f
}

// series are those of one kind and mode, in one group.
type series struct {
	in                                                      *families
	labels                                                  func(more ...string) []string
	granted, released, lost, detached, age, margin          prometheus.Observer
	queued, extended, extendFailed, jeopardy, releaseErrors prometheus.Counter
	outlived, forgotten, outages, outagesOver               prometheus.Counter
	acquiring, held, kept                                   prometheus.Gauge
	outcomes                                                map[redlatch.Outcome]prometheus.Observer
	losses                                                  map[redlatch.LossReason]prometheus.Counter
}

// of creates the series of a kind and mode in a group, at 0, and returns them.
func (f *families) of(kind, mode string, group *string) *series {
	labels := func(more ...string) []string {
		all := []string{kind, mode}
		if group != nil {
			all = append(all, *group)
		}
		return append(all, more...)
	}
	s := &series{
		in: f, labels: labels,
		queued: f.queued.WithLabelValues(labels()...), acquiring: f.acquiring.WithLabelValues(labels()...),
		held: f.held.WithLabelValues(labels()...), kept: f.kept.WithLabelValues(labels()...), age: f.age.WithLabelValues(labels()...),
		margin: f.margin.WithLabelValues(labels()...), jeopardy: f.jeopardy.WithLabelValues(labels()...),
		releaseErrors: f.errors.WithLabelValues(labels()...),
		extended:      f.extends.WithLabelValues(labels("ok")...), extendFailed: f.extends.WithLabelValues(labels("failed")...),
		outlived: f.stray.WithLabelValues(labels("outlived")...), forgotten: f.stray.WithLabelValues(labels("forgotten")...),
		outages: f.outages.WithLabelValues(labels("begun")...), outagesOver: f.outages.WithLabelValues(labels("over")...),
		released: f.hold.WithLabelValues(labels("released")...), lost: f.hold.WithLabelValues(labels("lost")...),
		detached: f.hold.WithLabelValues(labels("detached")...),
		outcomes: make(map[redlatch.Outcome]prometheus.Observer), losses: make(map[redlatch.LossReason]prometheus.Counter),
	}
	for _, o := range groups.Outcomes {
		s.outcomes[redlatch.Outcome(o)] = f.acquire.WithLabelValues(labels(o)...)
	}
	for _, r := range groups.Reasons {
		s.losses[redlatch.LossReason(r)] = f.lost.WithLabelValues(labels(r)...)
	}
	s.granted = s.outcomes[redlatch.OutcomeGranted]
	return s
}

// acquire returns the durations of acquisitions with an outcome.
func (s *series) acquire(o redlatch.Outcome) prometheus.Observer {
	if d, ok := s.outcomes[o]; ok {
		return d
	}
	return s.in.acquire.WithLabelValues(s.labels(string(o))...) // of a later redlatch
}

// lostFor returns the counter of losses for a reason.
func (s *series) lostFor(r redlatch.LossReason) prometheus.Counter {
	if c, ok := s.losses[r]; ok {
		return c
	}
	return s.in.lost.WithLabelValues(s.labels(string(r))...) // of a later redlatch
}
