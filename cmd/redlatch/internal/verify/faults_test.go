package verify

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/servers"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// unwatched is for servers that end with the test.
type unwatched struct{}

func (unwatched) Watch(int)  {}
func (unwatched) Forget(int) {}

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
	r.own = check.Value(servers.Deploy(t.Context(), deployment, t.TempDir(), unwatched{}, o)).OK(t)
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

// TestFailedFailoverEndsWhenWritesAreTaken: a failover that comes to nothing holds up writes. The
// fault is over when they are taken again, not when the command has failed.
func TestFailedFailoverEndsWhenWritesAreTaken(t *testing.T) {
	t.Parallel()
	r, noted := stage(t, "sentinel")
	for _, s := range r.own.Sentinels { // else a machine that is slow has them begin a failover of their own
		check.OK(t, "Do", check.ErrorOf(s.Do(t.Context(), "SENTINEL", "SET", servers.MasterName, "down-after-milliseconds", "60000")))
	}
	const held = 3 * time.Second
	failed := errors.New("the replica did not take over")
	f := fault("failover")
	f.do = func(ctx context.Context, r *run) (int64, string, error) {
		replica, master := r.own.Nodes[1], r.own.Nodes[0]
		check.Nil(t, "Pause", replica.Pause())
		check.Nil(t, "FAILOVER", check.ErrorOf(master.Do(ctx, "FAILOVER", "TIMEOUT", "3000")))
		return 0, master.Addr, failed
	}
	began := time.Now()
	r.strike(t.Context(), f)
	took := time.Since(began)
	check.Nil(t, "Resume", r.own.Nodes[1].Resume())
	all := noted()
	check.Must(t, len(all) == 1, "noted are %v, want one fault", all)
	e := all[0]
	if lasted := time.Duration(e.At - e.Asked); lasted < held-held/10 || lasted > took {
		t.Errorf("the fault lasted %v, want %v at least, in which Redis took no writes", lasted, held)
	}
	if e.Count != 0 || e.Mode != "*" || !strings.Contains(e.Why, failed.Error()) {
		t.Errorf("noted is %+v, want a failover without effect that may have lost locks", e)
	}
}

// TestPauseEndsWhenWritesAreTaken: a pause of the clients goes on when the run lets it be.
func TestPauseEndsWhenWritesAreTaken(t *testing.T) {
	t.Parallel()
	r, noted := stage(t, "one")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.strike(ctx, Fault{Name: "client-pause", Disrupt: true, lane: serversLane, do: func(ctx context.Context, r *run) (int64, string, error) {
		_, err := do(context.WithoutCancel(ctx), r.admin.clients[0], "CLIENT", "PAUSE", "1500")
		return 1, "", err
	}})
	if e := noted()[0]; time.Duration(e.At-e.Asked) < 1400*time.Millisecond || e.Why != "" {
		t.Errorf("noted is %+v, which lasted %v, want 1.5s at least", e, time.Duration(e.At-e.Asked))
	}
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
		{"sentinel", []string{"clock-ahead", "clock-back", "failover"}},
		{"cluster", []string{"clock-ahead", "clock-back", "failover", "isolation"}},
	} {
		t.Run(c.deployment, func(t *testing.T) {
			t.Parallel()
			r, noted := stage(t, c.deployment, c.faults...)
			for _, name := range c.faults {
				r.strike(t.Context(), fault(name))
			}
			all := noted()
			check.Must(t, len(all) == len(c.faults), "noted are %v, want %v", all, c.faults)
			for _, e := range all {
				if loses := e.Name != "clock-back" && e.Name != "server-stop" && e.Name != "node-kill"; e.Count == 0 || e.Why != "" || (e.Mode == "*") != loses {
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
	for _, deployment := range []string{"sentinel", "cluster"} {
		t.Run(deployment, func(t *testing.T) {
			t.Parallel()
			r, noted := stage(t, deployment)
			theirs := r.own
			r.own = nil
			before := check.Value(theirs.Replica(t.Context())).OK(t)
			r.succeed = check.Value(r.admin.succession(t.Context(), theirs.URLs[0])).OK(t)
			r.strike(t.Context(), fault("failover"))
			if e := noted()[0]; e.Count != 1 || e.Why != "" || e.Mode != "*" {
				t.Errorf("noted is %+v, want a failover", e)
			}
			if deployment != "sentinel" {
				return
			}
			if after, err := theirs.Master(t.Context()); err != nil || after != before {
				t.Errorf("Master = %v, %v, want what was the replica", after, err)
			}
			check.Nil(t, "AwaitWell", theirs.AwaitWell(t.Context()))
		})
	}
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		r, _ := stage(t, "one")
		if _, err := r.admin.succession(t.Context(), r.own.URLs[0]); !errors.Is(err, errNoSuccessor) {
			t.Errorf("succession = %v, want %v", err, errNoSuccessor)
		}
	})
}
