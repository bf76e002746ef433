package help

import (
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// Hearing makes a client wait once, so that its subscription is up.
func Hearing(t testing.TB, s *redistest.Server, c *redlatch.Client) {
	t.Helper()
	name := "hearing " + c.ID()
	s.Do("SET", locktest.StateKey(name), "somebody")
	result := GoLock(t.Context(), c.Mutex(name))
	locktest.Eventually(t, "the subscription is up", func() bool { return Hears(s, c) })
	s.Do("DEL", locktest.StateKey(name))
	locktest.Release(t, Await(t, result))
}

// Hears reports whether the subscription of a client is up.
func Hears(s *redistest.Server, c *redlatch.Client) bool {
	return s.Do("PUBSUB", "NUMSUB", GrantsChannel(c)) == GrantsChannel(c)+"\n1"
}

// WantHandOver makes b wait for a mutex that a holds. b is granted it after harm, so that b does
// not hear of the grant. b must find it.
func WantHandOver(t *testing.T, s *redistest.Server, a, b *redlatch.Client, harm func()) {
	t.Helper()
	held := locktest.Lock(t, a.Mutex("a"))
	result := GoLock(t.Context(), b.Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	owner := locktest.Line(s, "a")[0]
	harm()
	locktest.Release(t, held)
	l := Await(t, result)
	check.That(t, l.Owner() == owner, "owner %s, want %s, which the server let in when it published", l.Owner(), owner)
	WantSoundDeadline(t, s, l)
	locktest.Release(t, l)
}
