package trial

import (
	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
)

// Late lets requests arrive that are late, behind others of the client.
func (r *Trial) Late(near *redlatch.CountDownLatch) {
	for range 3 {
		_, _ = near.Count(locktest.Within(r, locktest.Patience)) // whose time is short, on a machine that is busy
	}
}

// WantCounted checks the count after a call that may have failed, and then may not have counted.
func (r *Trial) WantCounted(d *redlatch.CountDownLatch, want int64, failed bool) {
	r.Helper()
	got, err := d.Count(locktest.Within(r, locktest.Patience))
	if err != nil || got != want && !(failed && got == want+1) {
		r.Errorf("Count = %d, %v, want %d; the call failed: %t", got, err, want, failed)
	}
}

// WantNoTicket waits until no ticket is in line.
func (r *Trial) WantNoTicket() {
	r.Helper()
	locktest.Eventually(r, "an empty line", Seldom(func() bool {
		info, err := r.Far.Inspect(locktest.Within(r, locktest.Patience), r.Name)
		return err == nil && len(info.Waiters) == 0
	}))
}
