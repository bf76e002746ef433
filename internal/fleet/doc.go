// Package fleet keeps a picture of all locks under a prefix, for the dashboard and `redlatch top`,
// and the words in which they and the command describe a lock.
//
// One [Poller] looks for all viewers, and does not look while it has none. A look at all names
// ([Source.List]) goes in steps, with pauses between them, so that Redis spends no more than a
// tenth of its time on it however many names there are. The pauses are bounded by the number of
// names, so that a node that does not answer makes the picture no older than it must. In a pause
// that is long, the poller looks again at the names that a viewer has open and at the busiest ones.
//
// What the screens say of a lock, they say in the words of this package: [Lock.Cell] in a list,
// [Lock.Facts], [HolderFacts] and [WaiterText] on a page, [EntryText] of what happened. A new fact
// goes in there, and no screen changes. Package sample has a lock, and the words that each screen has
// to show of it.
//
// picture.go decides what is overdue or in trouble, and lock.go and holder.go have the words.
//
// A [Picture] is never changed after it was published. A viewer that is slow skips pictures.
package fleet
