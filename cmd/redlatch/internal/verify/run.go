package verify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/pace"
	"github.com/redlatch/redlatch/internal/testkit/servers"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// run is a run under way.
type run struct {
	Options
	plan     Plan
	dir      string
	urls     []string
	own      *servers.Deployment // nil if the servers are not the run's own
	admin    *admin
	succeed  succession // nil if no replica can take over
	guard    *guard
	registry *registry
	rec      *history.Recorder
	crew     *crew
}

// begin starts the servers if they are the run's own, and checks that no key has the prefix.
func (r *run) begin(ctx context.Context) (err error) {
	r.urls = r.URLs
	if r.plan.Own {
		o := servers.Options{Clocks: needed(r.plan.Faults, clocks), Wires: needed(r.plan.Faults, wires)}
		if r.own, err = servers.Deploy(ctx, r.Deployment, filepath.Join(r.dir, ".servers"), r.guard, o); err != nil {
			return err
		}
		if err := errors.Join(r.leaveOut(clocks, r.own.NoClocks), r.leaveOut(wires, r.own.NoWires)); err != nil {
			return err
		}
		r.urls = r.own.URLs
	}
	if r.admin, err = openAdmin(r.urls); err != nil {
		return err
	}
	if needed(r.plan.Faults, successors) {
		var why error
		r.succeed, why = r.admin.succession(ctx, r.urls[0])
		if err := r.leaveOut(successors, why); err != nil {
			return err
		}
	}
	r.plan.Promises = promises(r.plan.Deployment, r.plan.Faults)
	for _, url := range r.urls {
		r.plan.Servers = append(r.plan.Servers, talk.Bare(url))
	}
	r.examine(ctx)
	err = r.admin.each(ctx, r.plan.Prefix, func(_ rueidis.Client, key string) error {
		return fmt.Errorf("there are keys under it already, such as %q", key)
	})
	if err != nil {
		return fmt.Errorf("not begun: the prefix %s: %w", r.plan.Prefix, err)
	}
	if !r.plan.Own {
		r.guard.tell(note{URLs: r.urls, Prefix: r.plan.Prefix})
	}
	if silent(r.plan) {
		r.plan.Bound += time.Duration(2*r.plan.Workers) * silentTurn
	}
	if r.registry, err = listen(registers(r.dir)); err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(r.dir, planFile), r.plan); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(r.dir, supervisorFile))
	if err != nil {
		return err
	}
	r.rec = history.NewRecorder(file)
	if r.Planned != nil {
		r.Planned(r.plan)
	}
	return nil
}

// silentTurn is how long the turn of a process takes if no messages arrive: its waiters ask three
// to five times a second. A caller that locks two names waits for the turns of both.
const silentTurn = 350 * time.Millisecond

// examine runs the doctor on the servers. The report has its findings; the verdict ignores them.
func (r *run) examine(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	o := doctor.Options{URLs: r.urls, Prefix: r.plan.Prefix, TTL: r.plan.TTL, Look: 100 * time.Millisecond}
	o.Explain = func(err error, _ string) (found, advice string) { return talk.Unconnected(err), "" }
	versions := make(map[string]bool)
	_ = doctor.Examine(ctx, o, func(f doctor.Finding) {
		r.plan.Doctor = append(r.plan.Doctor, f)
		if f.Check == "version" {
			versions[f.Found] = true
		}
	})
	r.plan.Redis = joined(versions)
}

// end closes what begin opened. The guard removes the files.
func (r *run) end() {
	if r.registry != nil {
		_ = r.registry.Close()
	}
	r.admin.close()
	if r.own != nil {
		r.own.Stop()
	}
}

// work starts the workers, does harm, then lets the workers be, and checks what they left.
func (r *run) work(ctx context.Context) error {
	r.crew = newCrew(r)
	defer r.crew.dismiss((*child).kill)
	if err := r.crew.hire(ctx); err != nil {
		return err
	}
	stop := r.progress()
	defer stop()
	calm := r.plan.Bound + time.Second
	harm, cancel := context.WithTimeout(ctx, max(r.plan.Duration-calm, time.Second))
	r.harm(harm)
	cancel()
	if ctx.Err() == nil {
		for _, p := range r.crew.posts {
			p.child.tell(order{Do: "calm"})
		}
		r.rec.Note(history.Event{Type: history.Calm})
		lateness := watchClock(ctx, calm)
		r.rec.Note(history.Event{Type: history.Fault, Name: lateClock, Count: int64(lateness)})
	}
	r.crew.dismiss((*child).hangUp)
	r.leftovers(context.WithoutCancel(ctx))
	for name, one := range r.registry.results() {
		r.rec.Note(history.Event{Type: history.Final, Name: name, Value: one.Value, Bare: one.Bare, Count: one.Lost})
	}
	return r.rec.Err()
}

// watchClock waits for d, and returns how late a timer was at most. It waits longer by what that
// adds to the bound, so that a waiter that is never served is still found.
func watchClock(ctx context.Context, d time.Duration) (late time.Duration) {
	const step = 20 * time.Millisecond
	for began := time.Now(); time.Since(began) < d+min(lateTimes*late, d) && ctx.Err() == nil; {
		before := time.Now()
		time.Sleep(step)
		late = max(late, time.Since(before)-step)
	}
	return late
}

// leftovers waits for keys that may take a while to expire, and notes those that stay behind.
func (r *run) leftovers(ctx context.Context) {
	left := map[string]string{}
	patient := 3*r.plan.TTL + r.plan.Rest + r.plan.Window + 5*time.Second
	for end := time.Now().Add(patient); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var err error
		if left, err = r.admin.left(ctx, r.plan.Prefix); err == nil && len(left) == 0 {
			return
		}
	}
	for key, why := range left {
		r.rec.Note(history.Event{Type: history.Left, Name: key, Why: why})
	}
}

// progress reports how the run is going until stop is called.
func (r *run) progress() (stop func()) {
	if r.Tell == nil {
		return func() {}
	}
	began := time.Now()
	return pace.Every(250*time.Millisecond, 250*time.Millisecond, func() {
		p := r.crew.progress()
		p.Elapsed, p.HandOvers = time.Since(began), r.registry.handOvers.Load()
		r.Tell(p)
	})
}
