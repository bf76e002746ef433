package redlatchweb

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// collector turns a picture into metrics.
type collector struct {
	h *Handler

	up, age, took                                        *prometheus.Desc
	names, holders, kept, waiters, dead, held, waitedFor *prometheus.Desc
}

func (h *Handler) newMetrics() http.Handler {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("redlatch_fleet_"+name, help, labels, nil)
	}
	c := &collector{
		h:         h,
		up:        desc("up", "Whether the last look at all names succeeded."),
		age:       desc("picture_age_seconds", "How old the picture is that the other metrics are taken from."),
		took:      desc("look_duration_seconds", "How long the last look at all names took, without its pauses."),
		names:     desc("names", "Names that have a holder or a waiter, by the pattern they match.", "pattern"),
		holders:   desc("holders", "Holders, without places at rest and locks that a client only keeps, by the pattern their name matches.", "pattern"),
		kept:      desc("kept", "Locks that a client only keeps, not in use, by the pattern their name matches.", "pattern"),
		waiters:   desc("waiters", "Waiters, without those that are believed dead, by the pattern their name matches.", "pattern"),
		dead:      desc("dead", "Holders and waiters that are believed dead, by the pattern their name matches.", "pattern"),
		held:      desc("oldest_holder_seconds", "For how long the oldest holder has held its lock, "+fleet.NoLasting+", by the pattern its name matches; 0 if there is none.", "pattern"),
		waitedFor: desc("oldest_waiter_seconds", "For how long the longest waiter has waited, "+fleet.NoStandby+", by the pattern its name matches; 0 if there is none.", "pattern"),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.up, c.age, c.took, c.names, c.holders, c.kept, c.waiters, c.dead, c.held, c.waitedFor} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector]. A scrape counts as a viewer, and waits for a picture.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	picture := c.h.picture(c.h.closing, fleet.Interest{})
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	up := 0.0
	if picture.Err == nil && !picture.Taken.IsZero() {
		up = 1
	}
	gauge(c.up, up)
	if picture.Taken.IsZero() {
		return // nothing is known, which is not the same as nothing being held
	}
	gauge(c.age, time.Since(picture.Begun).Seconds())
	gauge(c.took, picture.Took.Seconds())
	for i, totals := range c.split(picture.Locks) {
		pattern := other
		if i < len(c.h.options.Patterns) {
			pattern = c.h.options.Patterns[i]
		}
		gauge(c.names, float64(totals.Names), pattern)
		gauge(c.holders, float64(totals.Holders), pattern)
		gauge(c.kept, float64(totals.Kept), pattern)
		gauge(c.waiters, float64(totals.Waiters), pattern)
		gauge(c.dead, float64(totals.DeadHolders+totals.DeadWaiters), pattern)
		gauge(c.held, totals.LongestHeld.Seconds(), pattern)
		gauge(c.waitedFor, totals.LongestWaited.Seconds(), pattern)
	}
}

// split adds the locks up by pattern; the last are those of no pattern.
func (c *collector) split(locks []*fleet.Lock) []fleet.Totals {
	patterns := c.h.options.Patterns
	totals := make([]fleet.Totals, len(patterns)+1)
	for _, l := range locks {
		i := 0
		for i < len(patterns) {
			if ok, _ := keys.Match(patterns[i], l.Name); ok {
				break
			}
			i++
		}
		totals[i].Add(l)
	}
	return totals
}
