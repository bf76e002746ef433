package doctor

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestKeptLocksAreTold: the doctor tells locks that are held from those that clients only keep.
func TestKeptLocksAreTold(t *testing.T) {
	t.Parallel()
	for want, all := range map[string]fleet.Totals{
		"no name is in use":                             {},
		"2 names are in use, all for locks of redlatch": {Names: 2, Holders: 2},
		"3 names are in use, all for locks of redlatch; held 1, and 2 only kept by clients (LockOptions.Linger)": {Names: 3, Holders: 1, Kept: 2},
	} {
		check.Equal(t, inUse(all), want, "what is said of %+v", all)
	}
}

// TestAdviceWhereNamesCannotBeListed: a right that is missing and a server that does not answer ask
// for different things.
func TestAdviceWhereNamesCannotBeListed(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		&conn.ReplyError{Text: "NOPERM this user has no permissions to run the 'scan' command"}: "+scan",
		fmt.Errorf("no answer from Redis within 3s: %w", context.DeadlineExceeded):              "when Redis answers",
	} {
		got := unlisted(err)
		check.That(t, strings.Contains(got, want), "%v: advice %q, want %q in it", err, got, want)
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
