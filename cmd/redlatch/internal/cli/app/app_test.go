package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

func TestAgainCanBeTypedAndKeepsPasswordsBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		redis, prefix, name, want string
	}{
		{"", DefaultPrefix, "job", "redlatch release job"},
		{"redis://localhost:7000", "", "it's", `redlatch --redis redis://localhost:7000 --prefix '' release 'it'\''s'`},
		{"redis://me:hush@localhost", "p", "a b", "redlatch --redis URL --prefix p release 'a b'"},
		{"unix:///run/redis.sock?password=hush", DefaultPrefix, "job", "redlatch --redis URL release job"},
		{"redis://:hush@%", DefaultPrefix, "job", "redlatch --redis URL release job"},
		{"redis://a redis://b redis://c", DefaultPrefix, "job", "redlatch --redis redis://a --redis redis://b --redis redis://c release job"},
	} {
		a := &App{Redis: strings.Fields(c.redis), Prefix: c.prefix}
		check.Equal(t, a.Again("release", c.name), c.want, "again")
	}
}

// TestAdviceOnASentinelThatIsWrong: it names a replica as the master, as it may during a failover.
func TestAdviceOnASentinelThatIsWrong(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("%w: the redis role is not master", redlatch.ErrUnreachable) // as rueidis says it
	if got := Advice(err, []string{"redis+sentinel://host/name"}); !strings.Contains(got, "Sentinel names a server that is no master") {
		t.Errorf("Advice = %q, want it to tell of Sentinel", got)
	}
}

// TestAdviceOnWhatRedisRefuses: an error of a cluster or of a server that is kept has its own advice.
func TestAdviceOnWhatRedisRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"TRYAGAIN Multiple keys request during rehashing of slot": "are being moved to another node",
		"CLUSTERDOWN The cluster is down":                         "does not serve that name",
		"BUSY Redis is busy running a script.":                    "another program's script",
	} {
		if got := Advice(&conn.ReplyError{Text: text}, []string{"redis+cluster://host"}); !strings.Contains(got, want) {
			t.Errorf("advice on %q is %q, want %q", text, got, want)
		}
	}
}
