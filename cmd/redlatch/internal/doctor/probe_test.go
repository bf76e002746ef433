package doctor_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
)

func probe(t *testing.T, urls ...string) findings {
	t.Helper()
	return gather(t, doctor.Probe, doctor.Options{URLs: urls, Prefix: prefix, TTL: 30 * time.Second})
}

func TestProbeOfWholeServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	all := probe(t, s.URL())
	all.wantNo(t, worse...)
	for _, check := range []string{
		"time", "expiry", "numbers", "sorted sets", "bitmaps", "run_id", "PUBLISH", "NUMSUB", "isolation", "publish", "SCAN", "INFO", "WAIT", "probe",
	} {
		all.want(t, check, doctor.OK)
	}
	check.Equal(t, s.Do("DBSIZE"), "0", "keys are left behind")
}

// without returns the URL of a server, for a user that may run all commands but one, as those of
// hosted services.
func without(s *redistest.Server, command string) string {
	s.AllowUser("no-"+command, "on", ">secret", "~*", "&*", "+@all", "-"+command)
	return "redis://no-" + command + ":secret@" + s.Addr()
}

// TestProbeOfServerThatLacks has a server without each of these commands in turn.
func TestProbeOfServerThatLacks(t *testing.T) {
	t.Parallel()
	shared := redistest.Start(t)
	for _, test := range []struct {
		command, check string
		level          doctor.Level
		words          []string
	}{
		{"info", "run_id", doctor.Note, []string{"run_id", "cannot be a node of a quorum"}},
		{"info", "INFO", doctor.Note, []string{"look at less"}},
		{"bitpos", "bitmaps", doctor.Warning, []string{"slot pools cannot be used"}},
		{"publish", "PUBLISH", doctor.Warning, []string{"up to one heartbeat"}},
		{"pubsub", "NUMSUB", doctor.Note, []string{"three heartbeats"}},
		{"wait", "WAIT", doctor.Note, []string{"LockOptions.Replicas cannot be used"}},
		{"scan", "SCAN", doctor.Note, []string{"cannot list names"}},
		{"time", "time", doctor.Fault, []string{"cannot be used on this server"}},
		{"eval", "scripts", doctor.Fault, []string{"scripts cannot be run", "redlatch doctor --acl"}},
	} {
		t.Run(test.command+" "+test.check, func(t *testing.T) {
			t.Parallel()
			s := shared
			if test.command == "eval" { // scripts that others have sent run without that right
				s = redistest.Start(t)
			}
			probe(t, without(s, test.command)).want(t, test.check, test.level, test.words...)
		})
	}
}

func TestProbeOfQuorumNodeWithoutRunID(t *testing.T) {
	t.Parallel()
	probe(t, redistest.Start(t).URL(), without(redistest.Start(t), "info"), redistest.Start(t).URL()).want(t, "run_id", doctor.Fault, "cannot be a node of a quorum")
}

func TestProbeOfEmbeddedServer(t *testing.T) {
	t.Parallel()
	all := probe(t, redlatchtest.Start(t).URL())
	all.wantNo(t, doctor.Fault)
	all.want(t, "run_id", doctor.Note, "cannot be a node of a quorum")
	for _, f := range all { // its script is busy for a while, which a slow machine makes longer
		found := f.Level == doctor.OK || strings.Contains(f.Found, "no answer in time")
		check.That(t, f.Check != "isolation" || found, "%+v", f)
	}
}
