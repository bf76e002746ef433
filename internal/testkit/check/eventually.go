package check

import "time"

// Patience bounds every wait for what must happen. It only matters when something is broken.
const Patience = time.Minute

// Eventually polls until a condition holds, and fails the test after [Patience]. It rests between two
// looks for at least as long as a look takes.
func Eventually(t T, what string, holds func() bool) {
	t.Helper()
	EventuallyOr(t, holds, func() string { return what })
}

// EventuallyOr is [Eventually] for a condition that says afterwards what was wanted, and what was
// found.
func EventuallyOr(t T, holds func() bool, wanted func() string) {
	t.Helper()
	for began := time.Now(); ; {
		looked := time.Now()
		if holds() {
			return
		}
		if time.Since(began) > Patience {
			t.Fatalf("not within %v: %s", Patience, wanted())
		}
		time.Sleep(max(Rest(began), time.Since(looked)))
	}
}

// Rest returns how long a test that waits for something rests between two looks. The longer it has
// waited, the longer it rests: each look uses a processor, which other tests need.
func Rest(began time.Time) time.Duration {
	return min(max(2*time.Millisecond, time.Since(began)/16), 50*time.Millisecond)
}
