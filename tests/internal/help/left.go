package help

import (
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// WantNothingLeft waits until only fences, and the records of clients, are left of all that
// redlatch kept for these names.
func WantNothingLeft(t locktest.Reporter, s locktest.Doer, names ...string) {
	t.Helper()
	for _, name := range names {
		locktest.Eventually(t, "nothing is left of "+name, func() bool {
			return s.Do("EXISTS", locktest.StateKey(name), QueueKey(name), ClientsKey(name), InsideKey(name), BitsKey(name)) == "0"
		})
	}
}

// WantExpiry checks that every key on a server that only redlatch uses expires: what a process
// leaves behind when it dies must not stay forever. It does not hold for the epoch of a quorum.
func WantExpiry(t locktest.Reporter, s *redistest.Server) {
	t.Helper()
	if forever := Forever(s); forever != "" {
		t.Fatalf("these keys never expire:\n%s", forever)
	}
}

// Forever returns the keys on a server that never expire, a line each.
func Forever(s *redistest.Server) string {
	return s.Do("EVAL", `local forever = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  if redis.call('PTTL', key) == -1 then forever[#forever + 1] = key end
end
return forever`, "0")
}
