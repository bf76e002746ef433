package groups

// The values of labels, for counters that begin at zero. They are those of the library, of which a
// test compares them with what it tells.
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
