package operations

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/protocol/access"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

func wantNoSecret(t *testing.T, seen *help.Events) {
	t.Helper()
	for _, life := range seen.ByAttempt() {
		for _, e := range life {
			check.That(t, !strings.Contains(fmt.Sprintf("%+v", e), help.Secret), "an event tells the password: %+v", e)
		}
	}
}

// TestLeastRights has a user with redlatch's commands, keys and channels, and no more, do
// everything: over TLS with a certificate of its own, over a cluster and over a quorum.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	rights := append([]string{"on", ">" + help.Secret}, access.Rules("redlatch:", false)...)
	t.Run("tls", func(t *testing.T) {
		t.Parallel()
		s, ca, cert, key := redistest.StartMutualTLS(t)
		s.AllowUser("redlatch", rights...)
		url := fmt.Sprintf("rediss://redlatch:%s@%s?ca=%s", help.Secret, s.Addr(), ca)
		o, seen := help.Watched(help.Brisk(help.Lasting))
		if c, err := redlatch.Open(t.Context(), url, o); !errors.Is(err, redlatch.ErrUnreachable) || strings.Contains(err.Error(), help.Secret) {
			t.Errorf("Open without a client certificate = %v, %v, want ErrUnreachable without the password", c, err)
		}
		url += fmt.Sprintf("&cert=%s&key=%s", cert, key)
		longest := strings.Repeat("n", 512-len("redlatch:")-len("countdown")) // with the name of the kind behind it
		kindtest.Run(t, locktest.Open(t, url, o), locktest.Open(t, url, o), longest)
		wantNoSecret(t, seen)
	})
	t.Run("replicas", func(t *testing.T) {
		t.Parallel()
		master := redistest.Start(t)
		master.AllowUser("redlatch", rights...)
		host, port, _ := strings.Cut(master.Addr(), ":")
		replica := redistest.Start(t)
		replica.Do("REPLICAOF", host, port)
		replica.AwaitInfo("replication", "master_link_status:up") // the master says online before that
		c := locktest.Open(t, "redis://redlatch:"+help.Secret+"@"+master.Addr(), help.Brisk(help.Lasting))
		locktest.Release(t, locktest.Lock(t, c.Mutex("a").With(redlatch.LockOptions{Replicas: 1})))
		for info, err := range c.List(t.Context(), redlatch.ListOptions{}) {
			t.Errorf("List tells %+v, %v, want nothing", info, err)
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		nodes := redistest.StartCluster(t, 3)
		rights := rights
		if _, err := nodes[0].DoErr("PUBSUB", "SHARDCHANNELS"); err == nil {
			rights = append([]string{"on", ">" + help.Secret}, access.Rules("redlatch:", true)...)
		}
		var hosts []string
		for _, node := range nodes {
			node.AllowUser("redlatch", rights...)
			hosts = append(hosts, node.Addr())
		}
		url := "redis+cluster://redlatch:" + help.Secret + "@" + strings.Join(hosts, ",")
		kindtest.Run(t, locktest.Open(t, url, help.Brisk(help.Lasting)), locktest.Open(t, url, help.Brisk(help.Lasting)), "")
	})
	t.Run("quorum", func(t *testing.T) {
		t.Parallel()
		nodes := help.StartNodes(t, 3)
		var urls []string
		for _, node := range nodes {
			node.AllowUser("redlatch", rights...)
			urls = append(urls, "redis://redlatch:"+help.Secret+"@"+node.Addr())
		}
		o, seen := help.Watched(help.Brisk(help.Lasting))
		c := help.OpenURLs(t, urls, o)
		locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
		check.Nil(t, "Inspect", check.ErrorOf(c.Inspect(t.Context(), "a")))
		nodes[0].Kill()
		nodes[1].Kill()
		_, err := c.Mutex("a").TryLock(t.Context())
		if !errors.Is(err, redlatch.ErrUnreachable) || strings.Contains(err.Error(), help.Secret) {
			t.Errorf("TryLock without a majority = %v, want ErrUnreachable without the password", err)
		}
		wantNoSecret(t, seen)
	})
}

// TestNoErrorTellsAPassword has servers refuse a password, and not answer.
func TestNoErrorTellsAPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "right")
	for _, url := range []string{
		"redis://user:" + help.Secret + "@" + s.Addr(),
		"redis://:" + help.Secret + "@127.0.0.1:1",
		"redis+sentinel://:" + help.Secret + "@127.0.0.1:1/master?sentinel_password=" + help.Secret,
		"redis+cluster://:" + help.Secret + "@" + s.Addr(),
		"unix:///nowhere?password=" + help.Secret,
	} {
		ctx := locktest.Within(t, locktest.Patience)
		_, one := redlatch.Open(ctx, url, redlatch.Options{})
		_, most := redlatch.OpenQuorum(ctx, []string{url, "redis://127.0.0.1:2", "redis://127.0.0.1:3"}, redlatch.Options{})
		for _, err := range []error{one, most} {
			check.That(t, err != nil && !strings.Contains(err.Error(), help.Secret), "%s: %v, want an error without the password", url, err)
		}
	}
}
