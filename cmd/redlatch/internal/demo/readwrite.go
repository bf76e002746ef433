package demo

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// writers is how many of the workers write.
const writers = 2

// playReadWrite has readers and writers take turns until the end.
func playReadWrite(ctx context.Context, _ *run, workers []*worker) (Report, error) {
	var s spans
	var mu sync.Mutex
	turns := make([]int, len(workers)+1)
	err := join(ctx, workers, func(w *worker) error {
		m := w.client.RWMutex("document")
		acquire, mode := m.RLock, "r"
		if w.number <= writers {
			acquire, mode = m.Lock, "w"
		}
		for ctx.Err() == nil {
			lease, err := acquire(ctx)
			if err != nil {
				return err
			}
			end := s.begin(mode, lease)
			mu.Lock()
			turns[w.number]++
			mu.Unlock()
			w.tell(Event{Worker: w.number, Kind: Acquired, Token: lease.Token()})
			time.Sleep(time.Duration(1+rand.IntN(10)) * time.Millisecond) // the work
			end()
			if err := lease.Release(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	writes, reads, least := 0, 0, turns[1]
	for i, n := range turns[1:] {
		least = min(least, n)
		if i < writers {
			writes += n
		} else {
			reads += n
		}
	}
	report := Report{Counts: map[string]int{
		"writes": writes, "reads": reads, "least_turns": least,
		"reads_together":       s.overlaps(func(a, b *span) bool { return a.what == "r" && b.what == "r" }),
		"writer_beside_others": s.overlaps(func(a, b *span) bool { return a.what == "w" || b.what == "w" }),
	}}
	report.wants(report.Counts["writer_beside_others"] == 0, "a writer is alone")
	report.wants(report.Counts["reads_together"] > 0, "readers read together")
	report.wants(least > 0, "every worker has its turns")
	return report, err
}
