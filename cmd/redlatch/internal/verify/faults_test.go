package verify

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/servers"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// asked returns what to run on servers of its own.
func asked(deployment string, workers int, faults ...string) Options {
	p := Plan{Deployment: deployment, Duration: time.Minute, Workers: workers, Faults: faults}
	p.Prefix, p.TTL = "redlatch:", time.Second
	return Options{Plan: p, Disrupt: true}
}

// stage returns a run with servers of its own and without workers, and what it notes.
func stage(t *testing.T, deployment string, faults ...string) (r *run, noted func() []history.Event) {
	t.Helper()
	r = &run{Options: asked(deployment, 2, faults...)}
	r.plan = check.Value(r.Options.plan()).OK(t)
	o := servers.Options{Clocks: needed(faults, clocks), Wires: needed(faults, wires)}
	r.own = check.Value(servers.Deploy(t.Context(), deployment, t.TempDir(), nil, o)).OK(t)
	t.Cleanup(r.own.Stop)
	if err := errors.Join(r.own.NoClocks, r.own.NoWires); err != nil {
		t.Skip(err)
	}
	r.admin = check.Value(openAdmin(r.own.URLs)).OK(t)
	t.Cleanup(r.admin.close)
	if needed(faults, successors) {
		r.succeed = check.Value(r.admin.succession(t.Context(), r.own.URLs[0])).OK(t)
	}
	r.crew = newCrew(r)
	out := &bytes.Buffer{}
	r.rec = history.NewRecorder(out)
	return r, func() (all []history.Event) {
		check.OK(t, "ReadEvents", history.ReadEvents(bytes.NewReader(out.Bytes()), func(e history.Event) { all = append(all, e) }))
		return all
	}
}

// fault returns the fault of a name.
func fault(name string) Fault {
	all := Faults()
	return all[slices.IndexFunc(all, func(f Fault) bool { return f.Name == name })]
}

// TestFaultEndsWhenWritesAreTaken: a failover that fails holds up writes, as a pause of the clients does
// here. The fault ends when the server takes writes again, and not when the command of the fault has
// failed. It also ends there if the run has stopped doing harm.
func TestFaultEndsWhenWritesAreTaken(t *testing.T) {
	t.Parallel()
	r, noted := stage(t, "one")
	failed := errors.New("the replica did not take over")
	f := fault("failover")
	f.do = func(ctx context.Context, r *run) (int64, string, error) {
		_, err := do(context.WithoutCancel(ctx), r.admin.clients[0], "CLIENT", "PAUSE", "1500")
		return 0, "", errors.Join(err, failed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.strike(ctx, f)
	e := noted()[0]
	if lasted := time.Duration(e.At - e.Asked); lasted < 1400*time.Millisecond {
		t.Errorf("the fault lasted %v, want 1.5s at least, in which Redis took no writes", lasted)
	}
	noEffect := e.Count == 0 && e.Mode == "*" && e.Why == failed.Error()
	check.That(t, noEffect, "noted is %+v, want a failover without effect that may have lost locks", e)
}

// TestFaultsOfServersAreSeen does each fault that strikes servers once, and wants an effect to be seen.
func TestFaultsOfServersAreSeen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		deployment string
		faults     []string
	}{
		{"one", []string{"clock-ahead", "clock-back", "server-stop", "server-kill"}},
		{"quorum", []string{"clock-ahead", "clock-back", "node-kill"}},
		{"sentinel", []string{"clock-ahead", "clock-back", "isolation"}},
		{"cluster", []string{"clock-ahead", "clock-back", "failover", "isolation"}},
	} {
		t.Run(c.deployment, func(t *testing.T) {
			if testing.Short() && c.deployment != "one" {
				t.Skip("its servers take time of processors that make test has not: make test-all runs it")
			}
			t.Parallel()
			r, noted := stage(t, c.deployment, c.faults...)
			for _, name := range c.faults {
				r.strike(t.Context(), fault(name))
			}
			all := noted()
			check.Must(t, len(all) == len(c.faults), "noted are %v, want %v", all, c.faults)
			for _, e := range all {
				if loses := fault(e.Name).loses == "all"; e.Count == 0 || e.Why != "" || (e.Mode == "*") != loses {
					t.Errorf("noted is %+v, want an effect", e)
				}
			}
		})
	}
}

// TestFaultThatCannotBeDoneIsLeftOut: a fault for which servers lack something is left out of the plan
// with a sentence, or refused if it was asked for by name.
func TestFaultThatCannotBeDoneIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, named := range []bool{false, true} {
		r := &run{Options: asked("one", 2)}
		if named {
			r.Options.Faults = []string{"clock-ahead", "stop"}
		}
		r.plan = check.Value(r.Options.plan()).OK(t)
		before := len(r.plan.Faults)
		err := r.leaveOut(clocks, errors.New("no compiler"))
		switch {
		case named && (err == nil || !strings.Contains(err.Error(), `the fault "clock-ahead" cannot be done here: no compiler`)):
			t.Errorf("leaveOut = %v, want it refused", err)
		case !named && (err != nil || len(r.plan.Faults) != before-2 || len(r.plan.LeftOut) != 2 || r.plan.LeftOut[0].Why != "no compiler"):
			t.Errorf("leaveOut = %v, with %v left out, want both clocks left out", err, r.plan.LeftOut)
		}
	}
}

// TestFailoverOfServersThatAreGiven: a run has a replica take over at servers that it did not start,
// and leaves a server alone that is given by its own address.
func TestFailoverOfServersThatAreGiven(t *testing.T) {
	t.Parallel()
	r, noted := stage(t, "sentinel", "failover")
	theirs := r.own
	r.own = nil
	before := check.Value(theirs.Replica(t.Context())).OK(t)
	r.strike(t.Context(), fault("failover"))
	if e := noted()[0]; e.Count != 1 || e.Why != "" || e.Mode != "*" {
		t.Errorf("noted is %+v, want a failover", e)
	}
	if after, err := theirs.Master(t.Context()); err != nil || after != before {
		t.Errorf("Master = %v, %v, want what was the replica", after, err)
	}
	check.Nil(t, "AwaitWell", theirs.AwaitWell(t.Context()))
	alone, _ := stage(t, "one")
	if _, err := alone.admin.succession(t.Context(), alone.own.URLs[0]); !errors.Is(err, errNoSuccessor) {
		t.Errorf("succession = %v, want %v", err, errNoSuccessor)
	}
}

// TestExamineOfAServerThatIsDown: the doctor's look before a run reports a server that does not
// answer, such as a replica of a cluster, whose masters are enough for the run.
func TestExamineOfAServerThatIsDown(t *testing.T) {
	t.Parallel()
	r := &run{urls: []string{"redis://127.0.0.1:1"}}
	r.examine(t.Context())
	down := func(f doctor.Finding) bool { return f.Check == "reach" && f.Level == doctor.Fault }
	check.That(t, slices.ContainsFunc(r.plan.Doctor, down), "the doctor finds %v", r.plan.Doctor)
}
