package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestKeptLocksAreTold: the doctor tells locks that are held from those that clients only keep.
func TestKeptLocksAreTold(t *testing.T) {
	t.Parallel()
	for want, all := range map[string]fleet.Totals{
		"no lock in use":                    {},
		"2 locks in use, no unrelated keys": {Names: 2, Holders: 2},
		"3 locks in use, no unrelated keys; held 1, and 2 only kept by clients (LockOptions.Linger)": {Names: 3, Holders: 1, Kept: 2},
	} {
		check.Equal(t, inUse(all), want, "what is said of %+v", all)
	}
}

// TestNoMoreNamesThanKeys: keys are counted by the thousand, and each name that was looked at has one.
func TestNoMoreNamesThanKeys(t *testing.T) {
	t.Parallel()
	said := new(visit).incomplete(0, 900)
	check.That(t, strings.Contains(said, "saw 900 keys under the prefix, with 900 names in use"), "%s", said)
}

// TestAdviceWhereNamesCannotBeListed: a right that is missing and a server that does not answer ask
// for different things.
func TestAdviceWhereNamesCannotBeListed(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		&conn.ReplyError{Text: "NOPERM this user has no permissions to run the 'scan' command"}: "+scan",
		fmt.Errorf("no answer from Redis in 3s: %w", context.DeadlineExceeded):                  "when Redis answers",
	} {
		got := unlisted(err)
		check.That(t, strings.Contains(got, want), "%v: advice %q, want %q in it", err, got, want)
	}
}

// TestRestedNodesVote: a quorum whose nodes were all restarted, and have rested since, gives out locks. It was a
// fault. With a silent node, no node that has rested votes.
func TestRestedNodesVote(t *testing.T) {
	t.Parallel()
	rested := redlatch.NodeInfo{Votes: []redlatch.NodeVote{{Kind: "mutex", State: redlatch.NodeRested}}}
	for _, c := range []struct {
		last redlatch.NodeInfo
		want Level
	}{{rested, Warning}, {redlatch.NodeInfo{Err: redlatch.ErrUnreachable}, Fault}} {
		var got []Level
		v := &visit{Options: Options{URLs: []string{"a", "b", "c"}}, report: func(f Finding) { got = append(got, f.Level) }}
		v.quorum([]redlatch.NodeInfo{rested, rested, c.last})
		check.That(t, slices.Equal(got, []Level{c.want}), "levels %v beside %+v, want %v", got, c.last, c.want)
	}
}

// TestPersistenceIsNotGuessed: a server that does not say whether it writes an append-only file is not said to
// write one.
func TestPersistenceIsNotGuessed(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]Level{"aof_enabled:1": OK, "aof_enabled:0": Note, "": Note, "rdb_last_bgsave_status:ok": Note} {
		var got Finding
		v := &visit{Options: Options{URLs: []string{"a"}}, report: func(f Finding) { got = f }}
		v.persistence(&node{addr: "a:1", info: Pairs(info, "\n", ":")})
		check.That(t, got.Level == want && (got.Found == "append-only file") == (want == OK), "%q: %+v", info, got)
	}
}

// FuzzInfo looks at a server by whatever it tells of itself: each finding has a level and a text, and there
// are not many more than it told of replicas.
func FuzzInfo(f *testing.F) {
	f.Add("redis_version:7.0.15\r\nrole:master\r\nconnected_slaves:1\r\nslave0:ip=a,port=1,state=online,offset=9,lag=0\r\n")
	f.Add("redis_version:x\nvalkey_version:8\nrole:slave\nmaster_link_status:down\nloading:1")
	f.Add("connected_slaves:9223372036854775807\nmaxmemory_policy:allkeys-lru\naof_enabled:1\naof_last_write_status:err")
	f.Add(":\n::\nslave0:=,,=\nconnected_slaves:1\nmaster_repl_offset:-9223372036854775808\nslave0:offset=9223372036854775807,lag=9223372036854775807")
	f.Fuzz(func(t *testing.T, text string) {
		n := &node{addr: "a:1", info: Pairs(text, "\n", ":")}
		var all []Finding
		v := &visit{Options: Options{URLs: []string{"a", "b"}, TTL: 30 * time.Second}, report: func(f Finding) {
			all = append(all, f)
			check.Must(t, len(all) <= 6+len(n.info), "%d findings of %q", len(all), text) // at once: they could fill the memory
		}}
		v.version(n)
		v.role(n, false)
		v.memory(n)
		v.persistence(n)
		v.replicas(t.Context(), n)
		for _, f := range all {
			check.That(t, f.Level != "" && f.Found != "" && (f.Level == OK || f.Advice != ""), "%+v", f)
		}
	})
}
