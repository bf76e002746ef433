package groups

// The values of labels, except modes and groups (groups.go), for counters that begin at zero. A
// test compares them with what the library reports.
var (
	// Kinds are the kinds of locks: Event.Kind.
	Kinds = []string{"mutex", "reentrant", "rwmutex", "semaphore", "slotpool", "election", "job"}

	// Outcomes are the outcomes of acquisitions: Event.Outcome.
	Outcomes = []string{
		"granted", "taken", "exhausted", "line_full", "timeout", "canceled", "unreachable", "not_replicated", "closed", "not_held",
		"misuse", "error",
	}

	// Reasons are the reasons of losses: Event.Reason.
	Reasons = []string{"expired", "gone", "deleted", "forgotten", "forced", "max_hold", "not_renewed", "closed"}
)

// The bounds of histograms, for metrics collectors that support no exponential histograms.
var (
	AcquireBounds = []float64{.001, .0025, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300}
	HoldBounds    = []float64{.01, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400}
	AgeBounds     = []float64{60, 300, 900, 1800, 3600, 14400, 43200, 86400, 604800}
	MarginBounds  = []float64{.1, .2, .3, .4, .5, .6, .7, .8, .9}
	RequestBounds = []float64{.00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}
)
