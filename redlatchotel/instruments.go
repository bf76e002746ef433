package redlatchotel

import (
	"errors"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/groups"
)

// instruments are the metrics. The counters are kept here and reported when they are collected: so
// they exist before the first count, and cost little.
type instruments struct {
	acquire, hold, age, margin, request    metric.Float64Histogram
	resends                                metric.Int64Counter
	queued, extends, jeopardy, lost, fails metric.Int64ObservableCounter
	stray, outages                         metric.Int64ObservableCounter
	acquiring, held, kept                  metric.Int64ObservableUpDownCounter
	build                                  metric.Int64ObservableGauge
}

// newInstruments makes all of them.
func newInstruments(meter metric.Meter) (i instruments, err error) {
	histogram := func(name, unit, description string, bounds []float64) metric.Float64Histogram {
		h, e := meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		err = errors.Join(err, e)
		return h
	}
	counter := func(name, unit, description string) metric.Int64ObservableCounter {
		c, e := meter.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		err = errors.Join(err, e)
		return c
	}
	upDown := func(name, unit, description string) metric.Int64ObservableUpDownCounter {
		c, e := meter.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		err = errors.Join(err, e)
		return c
	}
	i.acquire = histogram("redlatch.acquire.duration", "s", "Time that acquisitions took, by how they ended.", groups.AcquireBounds)
	i.queued = counter("redlatch.acquire.queued", "{acquisition}", "Acquisitions that found the lock taken and waited in line.")
	i.acquiring = upDown("redlatch.acquiring", "{acquisition}", "Acquisitions under way.")
	i.held = upDown("redlatch.held", "{lease}", "Leases that this process holds.")
	i.kept = upDown("redlatch.kept", "{lock}", "Locks that this process keeps without a lease, for its next acquisitions.")
	i.hold = histogram("redlatch.hold.duration", "s", "Time that leases were held, by how they ended.", groups.HoldBounds)
	i.age = histogram("redlatch.extend.age", "s", "Age of held leases at an extend, once per minute of age.", groups.AgeBounds)
	i.margin = histogram("redlatch.extend.margin.ratio", "1", "Fraction of the lease that was left when a confirmed extend was sent.", groups.MarginBounds)
	i.extends = counter("redlatch.extends", "{extend}", "Extends, by whether Redis confirmed them.")
	i.jeopardy = counter("redlatch.jeopardy", "{lease}", "Leases that went into jeopardy: held, but not extended in time.")
	i.lost = counter("redlatch.lost", "{lease}", "Leases that were lost, by the reason.")
	i.stray = counter("redlatch.stray", "{lease}", "Leases that are extended though no code may release them, by how that was found.")
	i.outages = counter("redlatch.outages", "{outage}", "Outages of Redis that callers in line met, by whether they begin or are over.")
	i.fails = counter("redlatch.release.errors", "{release}", "Releases that Redis did not confirm.")
	i.request = histogram("redlatch.request.duration", "s", "Time that requests to Redis took, by server and result.", groups.RequestBounds)
	resends, e := meter.Int64Counter("redlatch.request.resends", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that were sent again, since an earlier request got no usable answer."))
	build, e2 := meter.Int64ObservableGauge("redlatch.build.info",
		metric.WithDescription("Always 1; the labels show the versions of redlatch and Go."))
	i.resends, i.build = resends, build
	return i, errors.Join(err, e, e2)
}

// observed returns the instruments that are reported when they are collected.
func (i *instruments) observed() []metric.Observable {
	return []metric.Observable{i.queued, i.extends, i.jeopardy, i.lost, i.stray, i.outages, i.fails, i.acquiring, i.held, i.kept, i.build}
}

// tell reports the counters of a series.
func (i *instruments) tell(to metric.Observer, s *series) {
	to.ObserveInt64(i.acquiring, s.acquiring.Load(), s.all)
	to.ObserveInt64(i.held, s.held.Load(), s.all)
	to.ObserveInt64(i.kept, s.kept.Load(), s.all)
	to.ObserveInt64(i.queued, s.queued.Load(), s.all)
	to.ObserveInt64(i.jeopardy, s.jeopardy.Load(), s.all)
	to.ObserveInt64(i.fails, s.releaseErrors.Load(), s.all)
	to.ObserveInt64(i.extends, s.extended.Load(), s.with("result", "ok"))
	to.ObserveInt64(i.extends, s.extendFailed.Load(), s.with("result", "failed"))
	to.ObserveInt64(i.stray, s.outlived.Load(), s.with("cause", "outlived"))
	to.ObserveInt64(i.stray, s.forgotten.Load(), s.with("cause", "forgotten"))
	to.ObserveInt64(i.outages, s.outages.Load(), s.with("phase", "begun"))
	to.ObserveInt64(i.outages, s.outagesOver.Load(), s.with("phase", "over"))
	s.mu.Lock()
	defer s.mu.Unlock()
	for reason, n := range s.losses {
		to.ObserveInt64(i.lost, n, s.with("reason", string(reason)))
	}
}

// series are the counters of one kind and mode, in one group, and the attributes of its histograms.
type series struct {
	attributes               []attribute.KeyValue
	all                      metric.MeasurementOption
	plain, granted, released []metric.RecordOption

	acquiring, held, kept                                   atomic.Int64
	queued, extended, extendFailed, jeopardy, releaseErrors atomic.Int64
	outlived, forgotten, outages, outagesOver               atomic.Int64

	mu     sync.Mutex // guards losses
	losses map[redlatch.LossReason]int64
}

// newSeries returns the series of a kind and mode, in a group if there are groups.
func newSeries(kind, mode string, group *string) *series {
	s := &series{losses: make(map[redlatch.LossReason]int64)}
	s.attributes = []attribute.KeyValue{attribute.String("kind", kind)}
	if mode != "" {
		s.attributes = append(s.attributes, attribute.String("mode", mode))
	}
	if group != nil {
		s.attributes = append(s.attributes, attribute.String("group", *group))
	}
	s.all = metric.WithAttributeSet(attribute.NewSet(s.attributes...))
	s.plain = []metric.RecordOption{s.all}
	s.granted = []metric.RecordOption{s.with("outcome", string(redlatch.OutcomeGranted))}
	s.released = []metric.RecordOption{s.with("end", "released")}
	for _, r := range groups.Reasons {
		s.losses[redlatch.LossReason(r)] = 0
	}
	return s
}

// with returns the attributes of the series and one more.
func (s *series) with(key, value string) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(s.attributes[:len(s.attributes):len(s.attributes)], attribute.String(key, value))...))
}

// lose counts a loss.
func (s *series) lose(reason redlatch.LossReason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.losses[reason]++
}
