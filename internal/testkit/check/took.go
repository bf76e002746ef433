package check

import "time"

// Took calls f, and returns how long that took. A machine that is busy or pauses has timers be
// late, and that time does not count.
func Took(f func()) (took time.Duration) {
	const step = 10 * time.Millisecond
	over, late := make(chan struct{}), make(chan time.Duration)
	go func() {
		var sum time.Duration
		for last := time.Now(); ; {
			select {
			case <-over:
				late <- sum
				return
			case <-time.After(step):
			}
			now := time.Now()
			sum += now.Sub(last) - step
			last = now
		}
	}()
	start := time.Now()
	f()
	took = time.Since(start)
	close(over)
	return took - <-late
}
