// Package operations tries what operators see and do: events, metrics, alerts, the journal, looking
// at locks, taking them by force, rights, and how errors and losses explain themselves.
//
// # Which file is about which hazard
//
//	byforce        a mutex that a waiter gets between the force and its new holder; a robbery twice
//	events         counters that drift: an attempt or lease whose end is told twice, or never
//	everything     a holder is killed, a lock is forced, processes deadlock: a view that does not tell
//	force          a holder whose lock is taken by force finds out late, or not by whom; a repeated command
//	inspect        an operator takes the dead for the living
//	journal        a record of what happened that lacks something, costs something, or grows
//	labels         labels that are not shown, or outlive what they are on
//	list           a look at all locks costs what was ever used, or misses some
//	metrics        metrics of two modules that say different things, or drift from the events
//	observability  a board or an alert without data, an explanation or a section of the runbook
//	outcome        an acquisition that is counted as what it was not
//	print          locks and leases that show their insides
//	prometheus     an alert that does not fire, on a Prometheus and a program with faults
//	reason         a loss whose reason a program cannot tell, or a context that is done
//	security       rights that redlatch does not need; passwords in errors
//	stray          leases that no code has, or that outlive the context of their acquisition
//	taken          a lock that is taken, and no word of the holder
package operations
