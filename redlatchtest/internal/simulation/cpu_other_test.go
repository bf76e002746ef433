//go:build !unix

package simulation

import "time"

var began = time.Now()

// used returns how long this process has run, where the time of its processor is not known.
func used() time.Duration { return time.Since(began) }
