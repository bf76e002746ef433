// Package pace runs a function periodically in the background.
package pace

import "time"

// Every calls f after first, and then again whenever then has passed, until stop is called. No call
// is under way when stop returns.
func Every(first, then time.Duration, f func()) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for wait := first; ; wait = then {
			select {
			case <-time.After(wait):
				f()
			case <-end:
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}
