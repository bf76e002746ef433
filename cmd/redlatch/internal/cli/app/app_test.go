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

// TestOnlyWithoutAServerIsOneStarted: beside a server that is down, an empty one would be started.
func TestOnlyWithoutAServerIsOneStarted(t *testing.T) {
	for _, variable := range []string{RedisVariable, fileVariable, usualVariable} {
		t.Setenv(variable, "")
	}
	err := fmt.Errorf("%w: connection refused", redlatch.ErrUnreachable)
	check.Equal(t, new(App).Advice(err, []string{DefaultRedis}), hintUnreachable, "advice about the default")
	for url, at := range map[string]string{DefaultRedis: "127.0.0.1:6379", "redis://me:hush@db1/3": "db1:6379", "unix://me:hush@/run/redis": "/run/redis"} {
		a := &App{Redis: []string{url}}
		check.Equal(t, a.Advice(err, a.Redis), "check that Redis runs at "+at+", and that this machine can reach it", "advice about a server with a name")
	}
	silent := fmt.Errorf("%w: b does not vote yet; c: connection refused", redlatch.ErrUnreachable)
	a := &App{Redis: strings.Fields("redis://a redis://b redis://c")}
	check.That(t, strings.HasPrefix(a.Advice(silent, a.Redis), "wait: "), "advice: %q", a.Advice(silent, a.Redis))
}

// TestAdviceOnACertificate: Redis asks for one with TLS, unless told not to. Its alert may be lost in the reset.
func TestAdviceOnACertificate(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"remote error: tls: certificate required", "write: connection reset by peer"} {
		got := new(App).Advice(fmt.Errorf("%w: %s", redlatch.ErrUnreachable, said), []string{"rediss://host?ca=ca.pem"})
		check.That(t, strings.Contains(got, "cert=FILE&key=FILE"), "advice on %q: %q", said, got)
	}
}

// TestAdvice: an error of Sentinel, of a cluster or of a server that is kept has its own.
func TestAdvice(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		// During a failover it may name a replica, of which rueidis says this.
		"Sentinel names a server that is not a master": fmt.Errorf("%w: the redis role is not master", redlatch.ErrUnreachable),

		// Redis closes the connection at once, as a TLS server would.
		"give its user a password": fmt.Errorf(`%w: read: connection reset by peer, after "DENIED Redis is running in protected mode because"`, redlatch.ErrUnreachable),

		"Sentinel watches no master of that name": &conn.ReplyError{Text: "No such master with that name"},
		"the user or the password in":             fmt.Errorf("%w; the last address dialed was a:1, which Sentinel told", &conn.ReplyError{Text: "WRONGPASS no"}),

		"are being moved to another node": &conn.ReplyError{Text: "TRYAGAIN Multiple keys request during rehashing of slot"},
		"does not serve that name":        &conn.ReplyError{Text: "CLUSTERDOWN The cluster is down"},
		"fewer replicas than":             &conn.ReplyError{Text: "NOREPLICAS Not enough good replicas to write."},
		"another program's script":        &conn.ReplyError{Text: "BUSY Redis is busy running a script."},
	} {
		if got := new(App).Advice(err, []string{"redis+sentinel://host/name"}); !strings.Contains(got, want) {
			t.Errorf("Advice on %q = %q, want %q", err, got, want)
		}
	}
}
