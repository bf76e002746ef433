package help

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// NeedShards skips the test on nodes without sharded channels.
func NeedShards(t *testing.T, nodes []*redistest.Server) []*redistest.Server {
	t.Helper()
	if !KnowsShards(nodes[0]) {
		t.Skip("this server has no sharded channels, which are new in Redis 7.0")
	}
	return nodes
}

// KnowsShards reports whether a server has sharded channels.
func KnowsShards(s *redistest.Server) bool { return s.Do("COMMAND", "INFO", "ssubscribe") != "" }

// RecordKey returns the key in which a client says which process it is.
func RecordKey(c *redlatch.Client) string { return "{redlatch:" + c.ID() + "}:client" }

// Recorded waits until a client has said which process it is.
func Recorded(t *testing.T, s *redistest.Server, c *redlatch.Client) {
	t.Helper()
	locktest.Eventually(t, "the client has a record", func() bool { return s.Do("EXISTS", RecordKey(c)) == "1" })
}

// Connections returns how many connections there are beside the one that asks.
func Connections(s *redistest.Server) int {
	return strings.Count(s.Do("CLIENT", "LIST"), "\n") - 1
}

// CommandCalls returns how often clients and scripts called a command since the stats were reset.
func CommandCalls(s *redistest.Server, command string) int {
	return numberIn(s.Do("INFO", "commandstats"), "cmdstat_"+command+":calls=%d")
}

// numberIn returns the number in the first line of INFO that has this format, or 0.
func numberIn(info, format string) (n int) {
	for line := range strings.Lines(info) {
		if _, err := fmt.Sscanf(line, format, &n); err == nil {
			return n
		}
	}
	return 0
}

// Secret is in every password of these tests.
const Secret = "open-sesame"

// Vanish makes the lease of a slot be over in Redis, and half of its quarantine.
func Vanish(s *redistest.Server, name, owner string, quarantine time.Duration) {
	const shorten = "local t = redis.call('TIME') return redis.call('ZADD', KEYS[1], 'XX', t[1] * 1000 + ARGV[2], ARGV[1])"
	s.Do("EVAL", shorten, "1", locktest.StateKey(name), owner, strconv.FormatInt((quarantine/2).Milliseconds(), 10))
}

// CountInfo returns a number of INFO.
func CountInfo(s *redistest.Server, name string) int { return numberIn(s.Do("INFO"), name+":%d") }

// Evalshas returns how often EVALSHA was called, according to INFO commandstats.
func Evalshas(info string) int { return numberIn(info, "cmdstat_evalsha:calls=%d") }
