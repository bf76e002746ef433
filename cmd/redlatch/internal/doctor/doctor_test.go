package doctor_test

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/internal/protocol/access"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

const prefix = "redlatch:"

type findings []doctor.Finding

// gather returns what a look at servers finds.
func gather(t *testing.T, look func(context.Context, doctor.Options, func(doctor.Finding)) error, o doctor.Options) (all findings) {
	t.Helper()
	o.Again = (&app.App{Prefix: prefix}).AgainOn
	o.Explain = func(err error, _ string) (found, advice string) { return err.Error(), "" }
	check.OK(t, "look", look(t.Context(), o, func(f doctor.Finding) { all = append(all, f) }))
	return all
}

func examine(t *testing.T, urls ...string) findings {
	t.Helper()
	return gather(t, doctor.Examine, doctor.Options{URLs: urls, Prefix: prefix, TTL: 30 * time.Second})
}

// want checks that there is such a finding, whose text and advice contain these words.
func (all findings) want(t *testing.T, check string, level doctor.Level, words ...string) {
	t.Helper()
	for _, f := range all {
		text := f.Found + "\n" + f.Advice
		missing := slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
		if f.Check == check && f.Level == level && !missing {
			return
		}
	}
	t.Errorf("no %s about %s with %q among\n%+v", level, check, words, all)
}

// worse are the levels of what is not as it should be.
var worse = []doctor.Level{doctor.Note, doctor.Warning, doctor.Fault}

// wantNo checks that no finding has one of these levels.
func (all findings) wantNo(t *testing.T, levels ...doctor.Level) {
	t.Helper()
	for _, f := range all {
		check.That(t, !slices.Contains(levels, f.Level), "%+v, want none of %v", f, levels)
	}
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes")
	all := examine(t, s.URL())
	all.wantNo(t, worse...)
	for _, check := range []string{"round trip", "version", "role", "eviction", "persistence", "replicas", "rights", "publish", "clock", "locks", "deadlocks"} {
		all.want(t, check, doctor.OK)
	}
	check.Equal(t, s.Do("DBSIZE"), "0", "keys are left behind")
}

// TestIncompleteLookIsNotOK: where there are more names than there is time to look at, that is
// said, with how far it came.
func TestIncompleteLookIsNotOK(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("EVAL", "for i = 1, 3000 do redis.call('SET', '{redlatch:used:' .. i .. '}:fence', i, 'EX', 604800) end", "0")
	all := gather(t, doctor.Examine, doctor.Options{URLs: []string{s.URL()}, Prefix: prefix, TTL: 30 * time.Second, Look: time.Nanosecond})
	all.want(t, "locks", doctor.Note, "saw 0 keys under the prefix (the server has about 3000 in all), with 0 names in use, and did not look at the rest", "redlatch ls")
	for _, f := range all {
		check.That(t, f.Check != "locks" || f.Level != doctor.OK, "%+v after an incomplete look", f)
	}
}

func TestEviction(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	examine(t, s.URL()).want(t, "eviction", doctor.Note, "allkeys-lru")
	s.Do("CONFIG", "SET", "maxmemory", "100mb")
	examine(t, s.URL()).want(t, "eviction", doctor.Fault, "allkeys-lru", "noeviction")
}

func TestFailedPersistence(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gone")
	check.OK(t, "Mkdir", os.Mkdir(dir, 0o700))
	s := redistest.Start(t, "--dir", dir)
	examine(t, s.URL()).want(t, "persistence", doctor.Note, "restart forgets")
	check.OK(t, "RemoveAll", os.RemoveAll(dir))
	s.Do("SET", "a", "b")
	s.Do("BGSAVE")
	s.AwaitInfo("persistence", "rdb_last_bgsave_status:err")
	examine(t, s.URL()).want(t, "persistence", doctor.Fault, "snapshot failed")
}

// TestRights takes rights away, and checks that the line that the doctor gives restores them.
func TestRights(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	as := func(user string) string {
		u, _ := url.Parse(s.URL())
		u.User = url.UserPassword(user, "hush")
		return u.String()
	}
	s.AllowUser("some", "on", ">hush", "~*", "&*", "+@all", "-zadd", "-pexpire")
	examine(t, as("some")).want(t, "rights", doctor.Fault, "the user some may not", "pexpire, zadd", "redlatch doctor --acl")
	s.AllowUser("blind", "on", ">hush", "~*", "&*", "+@all", "-pubsub")
	examine(t, as("blind")).want(t, "rights", doctor.Fault, ": pubsub")
	s.AllowUser("uninformed", "on", ">hush", "~*", "&*", "+@all", "-info")
	all := examine(t, as("uninformed")) // locks on one server do not need it
	all.wantNo(t, doctor.Fault)
	all.want(t, "info", doctor.Warning, "NOPERM", "+info")
	s.AllowUser("keyless", "on", ">hush", "~other:*", "&*", "+@all")
	examine(t, as("keyless")).want(t, "rights", doctor.Fault)
	s.AllowUser("mute", "on", ">hush", "~*", "&*", "+@all", "-eval", "-evalsha")
	examine(t, as("mute")).want(t, "rights", doctor.Fault, "scripts cannot be run")
	s.AllowUser("deaf", "on", ">hush", "~*", "&other:*", "+@all", "-subscribe")
	examine(t, as("deaf")).want(t, "publish", doctor.Warning, "no messages arrive")
	examine(t, as("nobody")).want(t, "reach", doctor.Fault, "WRONGPASS")

	// A user without any right is one line, and the line of Access mends it.
	s.AllowUser("bob", "on", ">hush")
	all = examine(t, as("bob"))
	all.want(t, "rights", doctor.Fault, "the user bob may not", "redlatch doctor --acl")
	for _, f := range all {
		check.That(t, f.Check == "rights" || !strings.Contains(f.Found, "NOPERM"), "%+v beside the line about rights", f)
		check.That(t, f.Check != "reach", "%+v, of a server that was reached", f)
	}
	give := func(user, prefix string) (refused []string) {
		for _, line := range check.Value(doctor.Access(doctor.Options{URLs: []string{as(user)}, Prefix: prefix})).OK(t) {
			if _, err := s.DoErr(strings.Fields(line)...); err != nil {
				refused = append(refused, line)
			}
		}
		return refused
	}
	check.Equal(t, len(give("bob", prefix)), 0, "commands that are refused")
	examine(t, as("bob")).wantNo(t, doctor.Fault)

	// A user of all keys and channels keeps them, and gets the commands all the same.
	s.AllowUser("all", "on", ">hush", "~*", "&*", "+@all", "-zadd")
	check.Equal(t, strings.Join(give("all", prefix), "\n"),
		"ACL SETUSER all ~redlatch:* ~{redlatch:*\nACL SETUSER all &redlatch:* &{redlatch:*", "commands that are refused")
	examine(t, as("all")).wantNo(t, doctor.Fault)
	if all := s.Do("ACL", "LIST"); !regexp.MustCompile(`user all [^\n]*~\* &\*`).MatchString(all) {
		t.Errorf("the user is now as in %s", all)
	}
	check.Equal(t, len(give("bob", "")), 0, "commands that are refused, without a prefix")

	// A new user is made only with a password.
	lines := check.Value(doctor.Access(doctor.Options{URLs: []string{s.URL()}, Prefix: prefix})).OK(t)
	check.Equal(t, len(lines), 1, "commands that make a user")
	_, err := s.DoErr(strings.Fields(lines[0])...)
	check.That(t, err != nil && !strings.Contains(s.Do("ACL", "LIST"), "user redlatch"), "%s: %v", lines[0], err)
	s.Do(strings.Fields(strings.Replace(lines[0], "#SHA-256-OF-THE-PASSWORD", ">hush", 1))...)
	all = examine(t, as("redlatch"))
	all.wantNo(t, doctor.Fault)
	all.want(t, "publish", doctor.OK)
	all.want(t, "locks", doctor.OK)
	probe(t, as("redlatch")).wantNo(t, worse...)

	// One without the right to write the journal can do all else.
	s.AllowUser("redlatch", append(append([]string{"on", ">hush"}, access.Rules(prefix, false)...), "-xadd")...)
	all = examine(t, as("redlatch"))
	all.wantNo(t, doctor.Fault)
	all.want(t, "journal", doctor.Note, "xadd", "redlatch doctor --acl")
	all.want(t, "rights", doctor.OK)
}

// TestServerThatRefusesToWrite: it has too few replicas, or its memory is full.
func TestServerThatRefusesToWrite(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--min-replicas-to-write", "1")
	all := examine(t, s.URL())
	all.want(t, "writes", doctor.Fault, "NOREPLICAS")
	all.want(t, "rights", doctor.OK)
	s.Do("CONFIG", "SET", "min-replicas-to-write", "0")
	examine(t, s.URL()).wantNo(t, doctor.Fault)
	s.Do("CONFIG", "SET", "maxmemory", "1")
	examine(t, s.URL()).want(t, "writes", doctor.Fault, "OOM", "raise maxmemory")
}

// TestCommandsThatAServerLacks: a server that does not know a command is at fault, and not its user.
func TestCommandsThatAServerLacks(t *testing.T) {
	t.Parallel()
	for name, words := range map[string][]string{"ZADD": {"does not know", "zadd"}, "EVALSHA": {"scripts cannot be run: ERR unknown command"}} {
		all := examine(t, redistest.Start(t, "--rename-command", name, "").URL())
		all.want(t, "rights", doctor.Fault, append(words, "--probe")...)
		for _, f := range all {
			check.That(t, f.Check != "rights" || !strings.Contains(f.Found+f.Advice, "user"), "without %s: %+v", name, f)
		}
	}
	examine(t, redistest.Start(t, "--rename-command", "XADD", "").URL()).want(t, "journal", doctor.Note, "unknown to the server: xadd")
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	host, port, _ := strings.Cut(master.Addr(), ":")
	replica := redistest.Start(t)
	replica.Do("REPLICAOF", host, port)
	replica.AwaitInfo("replication", "master_link_status:up")
	master.AwaitInfo("replication", "state=online")
	all := examine(t, master.URL())
	all.want(t, "replicas", doctor.OK, "online")
	all.want(t, "min-replicas-to-write", doctor.Warning, "CONFIG SET min-replicas-to-write 1")
	master.Do("CONFIG", "SET", "min-replicas-to-write", "1")
	examine(t, master.URL()).want(t, "min-replicas-to-write", doctor.OK, "1")
	examine(t, replica.URL()).want(t, "role", doctor.Fault, "replica of "+master.Addr())
	master.Kill()
	replica.AwaitInfo("replication", "master_link_status:down")
	examine(t, replica.URL()).want(t, "role", doctor.Fault, "cut off", "takes no locks")
}

func TestForeignKeys(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", prefix+"for ever", "somebody")
	s.Do("RPUSH", prefix+"list", "a")
	all := examine(t, s.URL())
	all.want(t, "locks", doctor.Fault, "for ever", "never expires", "redlatch release")
	all.want(t, "locks", doctor.Warning, "list")
	s.Do("SET", prefix+"for ever", "somebody", "PX", "60000")
	examine(t, s.URL()).want(t, "locks", doctor.Note, "for ever", "not redlatch's")
	for i := range 15 {
		s.Do("SET", prefix+strconv.Itoa(i), "somebody")
	}
	all = examine(t, s.URL())
	all.want(t, "locks", doctor.Note, "5 more names like these", "`redlatch ls`")
	faults := 0
	for _, f := range all {
		if f.Check == "locks" && f.Level == doctor.Fault {
			faults++
		}
	}
	check.Equal(t, faults, 10, "faults of locks that are told")
}

func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	where := "redis+cluster://" + nodes[0].Addr()
	all := examine(t, where)
	all.wantNo(t, doctor.Fault)
	all.want(t, "cluster", doctor.OK, "state ok", "16384")
	all = probe(t, where)
	all.wantNo(t, doctor.Fault)
	all.want(t, "publish", doctor.OK, "messages arrive")
	for _, node := range nodes {
		locktest.Eventually(t, node.Addr()+" notices that a slot has no node", func() bool {
			for _, node := range nodes { // doctor may ask any; a late message of another can have it learn the slot again
				_, _ = node.DoErr("CLUSTER", "DELSLOTS", "9000")
			}
			return strings.Contains(node.Do("CLUSTER", "INFO"), "cluster_state:fail")
		})
	}
	all = examine(t, where)
	all.want(t, "cluster", doctor.Fault)
	all.want(t, "rights", doctor.Fault, "CLUSTERDOWN", "are still unknown")
}

// TestClusterWithoutAMaster: a master is dead, and the names on the others are looked at all the same.
func TestClusterWithoutAMaster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	foreign := 0
	for i := range 100 {
		if _, err := nodes[0].DoErr("SET", prefix+strconv.Itoa(i), "somebody"); err == nil {
			foreign++
		}
	}
	nodes[2].Kill()
	all := examine(t, "redis+cluster://"+nodes[0].Addr())
	all.want(t, "reach", doctor.Fault)
	all.want(t, "locks", doctor.Fault, "never expires")
	all.want(t, "locks", doctor.Warning, "not all names can be listed")
	check.That(t, foreign > 0, "no name is on the node")
}

// TestClusterThatHasFailedOver: a master is dead, and its replica serves its slots.
func TestClusterThatHasFailedOver(t *testing.T) {
	if testing.Short() {
		t.Skip("its six servers take time of processors that make test has not: make test-all runs it")
	}
	t.Parallel()
	nodes := redistest.StartClusterWithReplicas(t, 3)
	nodes[0].Kill()
	for _, node := range nodes[1:3] {
		locktest.Eventually(t, node.Addr()+" notices that a replica has taken over", func() bool {
			info := node.Do("CLUSTER", "INFO") + node.Do("CLUSTER", "NODES")
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_fail:0") && strings.Contains(info, "master,fail ")
		})
	}
	all := examine(t, "redis+cluster://"+nodes[0].Addr()+","+nodes[1].Addr()+","+nodes[2].Addr())
	all.want(t, "cluster", doctor.OK, "state ok")
	all.want(t, "cluster", doctor.Warning, "says that this node has failed")
}

// TestTwoClusters: a URL leads to two clusters, of which a client uses one.
func TestTwoClusters(t *testing.T) {
	if testing.Short() {
		t.Skip("its six servers take time of processors that make test has not: make test-all runs it")
	}
	t.Parallel()
	one, other := redistest.StartCluster(t, 3), redistest.StartCluster(t, 3)
	where := "redis+cluster://" + one[0].Addr() + "," + one[1].Addr()
	examine(t, where).wantNo(t, doctor.Fault)
	examine(t, where+","+other[0].Addr()).want(t, "cluster", doctor.Fault, "not a node of the cluster")
}

// TestRightsInACluster: each node has users of its own, and messages go by channels of their own
// kind.
func TestRightsInACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	if nodes[0].Do("COMMAND", "INFO", "ssubscribe") == "" {
		t.Skip("this server has no sharded channels, which are new in Redis 7.0")
	}
	u := url.URL{Scheme: "redis+cluster", User: url.UserPassword("redlatch", "hush"), Host: nodes[0].Addr()}
	allow := func(n *redistest.Server, more ...string) {
		n.AllowUser("redlatch", append(append([]string{"reset", "on", ">hush"}, access.Rules(prefix, true)...), more...)...)
	}
	for _, n := range nodes {
		allow(n)
	}
	all := examine(t, u.String())
	all.wantNo(t, doctor.Fault)
	all.want(t, "publish", doctor.OK, "sharded messages arrive")
	for _, n := range nodes {
		allow(n, "-ssubscribe")
	}
	all = examine(t, u.String())
	all.want(t, "publish", doctor.OK, "messages arrive")
	all.want(t, "publish", doctor.Warning, "no sharded messages arrive", "+ssubscribe")
	allow(nodes[2], "-zadd")
	examine(t, u.String()).want(t, "rights", doctor.Fault, "zadd")
	for _, n := range nodes {
		allow(n, "-info")
	}
	all = examine(t, u.String())
	all.wantNo(t, doctor.Fault)
	all.want(t, "info", doctor.Warning, "NOPERM")
	locktest.Release(t, locktest.Lock(t, locktest.Open(t, u.String(), redlatch.Options{}).Mutex("a")))
	for _, n := range nodes {
		allow(n, "-info", "-zadd")
	}
	examine(t, u.String()).want(t, "rights", doctor.Fault, "under the prefix: zadd", "the user redlatch")
	for _, n := range nodes {
		allow(n)
	}
	u.Scheme = "redis" // which leads to a cluster all the same
	examine(t, u.String()).want(t, "cluster", doctor.OK, "state ok")
}

func TestQuorum(t *testing.T) {
	t.Parallel()
	var nodes []*redistest.Server
	var urls []string
	for range 3 {
		s := redistest.Start(t)
		nodes, urls = append(nodes, s), append(urls, s.URL())
	}
	examine(t, urls...).want(t, "votes on mutex", doctor.OK, "not used yet")
	again := strings.Replace(urls[0], "127.0.0.1", "localhost", 1)
	examine(t, urls[0], again, urls[1]).want(t, "votes", doctor.Fault, "localhost", nodes[0].Addr()+" are one server")
	c := check.Value(redlatch.OpenQuorum(t.Context(), urls, redlatch.Options{})).OK(t)
	defer c.Close()
	l := check.Value(c.Mutex("a").Lock(t.Context())).OK(t)
	defer func() { _ = l.Release(context.Background()) }()
	examine(t, urls...).want(t, "votes on mutex", doctor.OK, "3 of 3")
	nodes[0].Restart()
	examine(t, urls...).want(t, "votes on mutex", doctor.Warning, "2 of 3", nodes[0].Addr())
	nodes[1].Kill()
	all := examine(t, urls...)
	all.want(t, "reach", doctor.Fault)
	all.want(t, "votes on mutex", doctor.Fault, "1 of 3")
	nodes[2].Kill()
	examine(t, urls...).want(t, "votes", doctor.Fault, "most of the 3 nodes", "nothing can be acquired")
}

func TestNothingThere(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Kill()
	examine(t, s.URL()).want(t, "reach", doctor.Fault, "connection refused")
	probe(t, s.URL()).want(t, "reach", doctor.Fault, "check the address")
}
