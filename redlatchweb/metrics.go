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
type collector struct{ h *Handler }

func (h *Handler) newMetrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{h})
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}

// Describe implements [prometheus.Collector]. What it does not describe is checked when it is collected.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector]. A scrape counts as a viewer, and waits for a picture.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	picture := c.h.picture(c.h.closing, fleet.Interest{})
	tell := func(name, help string, v float64, pattern ...string) {
		desc := prometheus.NewDesc("redlatch_fleet_"+name, help, []string{"pattern"}[:len(pattern)], nil)
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, pattern...)
	}
	up := 0.0
	if picture.Err == nil && !picture.Taken.IsZero() {
		up = 1
	}
	tell("up", "Whether the last look at all names succeeded.", up)
	if picture.Taken.IsZero() {
		return // nothing is known, which is not the same as nothing being held
	}
	tell("picture_age_seconds", "How old the picture is that the other metrics are taken from.", time.Since(picture.Begun).Seconds())
	tell("look_duration_seconds", "How long the last look at all names took, without its pauses.", picture.Took.Seconds())
	for i, t := range c.split(picture.Locks) {
		pattern := other
		if i < len(c.h.options.Patterns) {
			pattern = c.h.options.Patterns[i]
		}
		of := func(name, help string, v float64) { tell(name, help, v, pattern) }
		of("names", "Names in use, by the pattern they match.", float64(t.Names))
		of("holders", "Holders, without places at rest and locks that a client only keeps, by the pattern their name matches.", float64(t.Holders))
		of("unknown", "Names of which too few nodes of a quorum tell all holders, by the pattern they match.", float64(t.Doubtful))
		of("kept", "Locks that a client only keeps, not in use, by the pattern their name matches.", float64(t.Kept))
		of("waiters", "Waiters, without those that are believed dead, by the pattern their name matches.", float64(t.Waiters))
		of("dead", "Holders, keepers and waiters that are believed dead, by the pattern their name matches.", float64(t.DeadHolders+t.DeadWaiters))
		of("oldest_holder_seconds",
			"For how long the oldest holder has held its lock, "+fleet.NoLasting+", by the pattern its name matches; 0 if there is none.", t.LongestHeld.Seconds())
		of("oldest_waiter_seconds",
			"For how long the longest waiter has waited, "+fleet.NoStandby+", by the pattern its name matches; 0 if there is none.", t.LongestWaited.Seconds())
	}
}

// split adds the locks up by pattern; the last total is of those that match no pattern.
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
