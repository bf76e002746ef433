package kinds

import (
	"errors"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestTokensOfAnotherKindGrowOverEverything: a mutex that is free gets its token in another way than
// all else.
func TestTokensOfAnotherKindGrowOverEverything(t *testing.T) {
	t.Parallel()
	help.TokensGrow(t, func(c *redlatch.Client) *redlatch.Lease {
		return check.Value(c.RWMutex("a").Lock(locktest.Within(t, locktest.Patience))).OK(t)
	})
}

// TestForceReleaseMakesTheOldTokenStale: a force-release lets nobody in by itself, and still the
// old holder's writes must be refused.
func TestForceReleaseMakesTheOldTokenStale(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
	help.Hearing(t, s, a)
	l := locktest.Lock(t, a.Mutex("a"))
	token := l.Token()
	if _, err := b.ForceRelease(t.Context(), "a", redlatch.ForceOptions{Owner: "somebody else"}); !errors.Is(err, redlatch.ErrNotHeld) || !l.Held() {
		t.Errorf("ForceRelease from another owner = %v, Held %v, want ErrNotHeld and true", err, l.Held())
	}
	before, err := b.ForceRelease(t.Context(), "a", redlatch.ForceOptions{})
	if err != nil || len(before.Holders) != 1 || before.Holders[0].Owner != l.Owner() || before.Token != token {
		t.Errorf("ForceRelease = %+v, %v, want the holder %s with token %d", before, err, l.Owner(), token)
	}
	help.WantLost(t, l) // at once, as it listens: the TTL is an hour
	after, err := b.Inspect(t.Context(), "a")
	if err != nil || after.Token <= token || len(after.Holders) != 0 {
		t.Errorf("Inspect = %+v, %v, want nobody inside and a token above %d", after, err, token)
	}
	if _, err := b.ForceRelease(t.Context(), "a", redlatch.ForceOptions{}); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("ForceRelease of a free name = %v, want ErrNotHeld", err)
	}
}
