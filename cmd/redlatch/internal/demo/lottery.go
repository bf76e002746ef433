package demo

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
)

// draws is how often the lottery draws.
const draws = 3

// playLottery starts each draw on all instances at once, a window after the one before.
func playLottery(ctx context.Context, r *run, workers []*worker) (Report, error) {
	window := r.Duration / (draws + 1)
	report := Report{Counts: map[string]int{"starts": 0, "draws": 0, "windows": 0}}
	for range draws {
		var drawn atomic.Int32
		begun := time.Now()
		err := join(ctx, workers, func(w *worker) error {
			job := w.client.Job("draw", redlatch.JobOptions{Window: window})
			_, err := job.Do(ctx, func(_ context.Context, l *redlatch.Lease) error {
				drawn.Add(1)
				w.tell(Event{Worker: w.number, Kind: Acquired, Token: l.Token(), Text: fmt.Sprintf("draws; %d others start the draw and do nothing", len(workers)-1)})
				return nil
			})
			return err
		})
		if err != nil || ctx.Err() != nil {
			return report, err
		}
		report.Counts["starts"] += len(workers)
		report.Counts["draws"] += int(drawn.Load())
		report.Counts["windows"]++
		report.wants(drawn.Load() == 1, "one instance draws in each window (%d did)", drawn.Load())
		select {
		case <-time.After(time.Until(begun.Add(window + window/10))): // the window began a little after we did
		case <-ctx.Done():
		}
	}
	report.wants(report.Counts["windows"] == draws, "there are %d draws (%d were)", draws, report.Counts["windows"])
	return report, nil
}
