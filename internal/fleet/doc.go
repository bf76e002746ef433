// Package fleet keeps a picture of all locks under a prefix, for the dashboard and `redlatch top`,
// and the words with which they and the command describe a lock.
//
// One [Poller] looks at the locks for all viewers, and stops while there are none. A look at all
// names ([Source.List]) goes in steps, with pauses between them, so that Redis spends no more than
// a tenth of its time on it, no matter how many names there are. The number of names bounds the
// pauses, so that a silent node does not make the picture older than necessary. In a long
// pause, the poller looks again at the names that a viewer has open and at the busiest ones.
//
// The screens describe a lock in the words of this package: [Lock.Cell] in a list, [Lock.Facts],
// [HolderFacts], [WaiterFacts] and [WaiterText] on a page, [EntryText] for what happened. A new fact goes in
// there, and no screen changes. Package sample has a lock, and the words that each screen has to
// show for it.
//
// picture.go decides what is overdue or in trouble. No metric says overdue, so no alert does:
// RedlatchJeopardy and RedlatchExtendMarginLow in observability/redlatch.rules.yml come closest.
// The words are in lock.go, for lists, and in holder.go, for the page of a lock.
// engine/survey/picture.go says which holders (meet) and waiters (newWaiter) are believed dead.
//
// A [Picture] is never changed after it was published. A slow viewer skips pictures.
package fleet
