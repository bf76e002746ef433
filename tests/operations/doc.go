// Package operations tests what operators see and do: events, metrics, alerts, the journal, looking
// at locks, taking them by force, rights, and how errors and losses explain themselves.
//
// # Which file is about which hazard
//
//	events         counters that drift: an attempt or lease whose end is told twice, or never
//	force          a holder whose lock is taken by force is not told by whom; a mutex that a waiter gets in between
//	hook           a slow hook: the client misses what happens meanwhile, or tells it wrongly
//	inspect        an operator takes a dead client for a living one, or does not see the holder after a loss of data; a look that costs what was ever used; callers that are not counted
//	journal        a record of what happened that lacks something, costs something, or grows
//	metrics        metrics of two modules that say different things, or drift from the events
//	observability  a board or an alert without data, an explanation or a section of the runbook
//	prometheus     queries of the rules and the board that find nothing in a Prometheus
//	readme         a first page whose lines do not work for a reader with a clone
//	reason         a loss, an outcome or an end of a context whose reason a program cannot tell; locks that print their insides
//	security       rights that redlatch does not need; passwords in errors
//	stray          leases that no code has
//	taken          a lock that is taken, and an error that does not name the holder
package operations
