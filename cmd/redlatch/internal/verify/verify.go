// Package verify puts redlatch to the test on a deployment of Redis: worker processes take turns with
// locks of every kind while faults strike, and write down what they asked and believed. What they
// wrote is then searched for what locks must not do.
//
//	supervisor: plan, servers, faults, registers      guard: cleans up, however the supervisor ends
//	  |            |            |
//	worker 1     worker 2     worker 3 ...            each a process, with a history of its own
//	  |            |            |
//	link         link         link                    connections that do harm on demand
//	  '------------+------------'
//	             Redis
//
// The supervisor judges after the workers have ended, and from the files alone. So a run can be
// judged again later.
package verify

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/internal/testkit/servers"
	"github.com/redlatch/redlatch/internal/verify/history"
	"github.com/redlatch/redlatch/internal/verify/register"
	"github.com/redlatch/redlatch/internal/verify/worker"
)

// Options say what to run.
type Options struct {
	URLs       []string // of a deployment, or the nodes of a quorum; none to start servers
	Deployment string   // which servers to start: one of [servers.Kinds]
	Prefix     string   // of the program; the run adds a random part
	Duration   time.Duration
	Workers    int
	Kinds      []string // none for all
	Faults     []string // none for all that are safe, and with Disrupt all
	Disrupt    bool     // also faults that hit all clients of the servers
	TTL        time.Duration
	Rate       int      // acquisitions a second at most; 0 for no limit
	Out        string   // a directory for the histories, which must not be there or be empty
	Command    []string // that starts a worker; nil for this program
	Version    string   // of this program

	Plan func(Plan)     // told before anything is done to Redis
	Tell func(Progress) // told a few times a second; may be nil
}

// Plan is what a run is to do, and what its histories mean.
type Plan struct {
	Version    string        `json:"version"`
	Deployment string        `json:"deployment"`
	Servers    []string      `json:"servers"` // without passwords
	Redis      string        `json:"redis"`   // its version, or versions
	Own        bool          `json:"own"`     // servers of its own
	Prefix     string        `json:"prefix"`
	Began      time.Time     `json:"began"`
	Duration   time.Duration `json:"duration_ns"`
	Workers    int           `json:"workers"`
	Actors     int           `json:"goroutines_per_name"`
	Kinds      []string      `json:"kinds"`
	Faults     []string      `json:"faults"`
	Rate       int           `json:"rate"`
	TTL        time.Duration `json:"ttl_ns"`
	Heartbeat  time.Duration `json:"heartbeat_ns"`
	Request    time.Duration `json:"request_timeout_ns"`
	Rest       time.Duration `json:"rest_ns"`
	Window     time.Duration `json:"window_ns"`
	Permits    int64         `json:"permits"`
	Slots      int           `json:"slots"`
	Bound      time.Duration `json:"bound_ns"` // within which waiters are served after the last fault
	Promises   []string      `json:"promises"`
	LeftOut    []LeftOut     `json:"left_out,omitempty"`

	Doctor []doctor.Finding `json:"doctor,omitempty"`
}

// LeftOut is a fault that cannot be done here.
type LeftOut struct {
	Fault string `json:"fault"`
	Why   string `json:"why"`
}

// Progress is how a run goes.
type Progress struct {
	Elapsed   time.Duration
	Acquired  int64
	HandOvers int64 // of what the locks protect, from one worker to another
	Lost      int64
	Stale     int64 // writes that the tokens kept out
	Faults    int
	Now       string // the faults that are being done
}

// The bounds of what can be asked for.
const (
	MinDuration = 15 * time.Second
	MaxDuration = 24 * time.Hour
	MaxWorkers  = 32
)

// ErrRefused says that the run was not begun.
var ErrRefused = errors.New("not begun")

// planFile is where the plan is kept, beside the histories.
const planFile = "plan.json"

// plan works out what to do, and refuses what makes no sense.
func (o Options) plan() (Plan, error) {
	p := Plan{
		Version: o.Version, Deployment: o.Deployment, Own: len(o.URLs) == 0, Duration: o.Duration, Workers: o.Workers, Actors: 2,
		Kinds: o.Kinds, Rate: o.Rate, TTL: o.TTL, Heartbeat: (o.TTL / 3).Truncate(time.Millisecond), Request: o.TTL * 6 / 10,
		Rest: o.TTL * 3 / 10, Window: o.TTL * 3 / 10, Permits: 5, Slots: 3, Began: time.Now(),
		Prefix: o.Prefix + "verify-" + strings.ToLower(rand.Text()[:10]) + ":",
	}
	quorum := len(o.URLs) > 1 || p.Own && o.Deployment == "quorum"
	possible := worker.Kinds(quorum)
	if len(p.Kinds) == 0 {
		p.Kinds = possible
	}
	for _, kind := range p.Kinds {
		if !slices.Contains(possible, kind) {
			return p, fmt.Errorf("%w: there is no kind %q to verify here: %s", redlatch.ErrInvalid, kind, strings.Join(possible, ", "))
		}
	}
	var err error
	if p.Faults, err = chooseFaults(o, p.Own, quorum); err != nil {
		return p, err
	}
	// A holder that began before the last fault works for 1.5 TTL at most; if it crashed, its lease
	// and its rest follow. The line may need three heartbeats to find a dead waiter, and the request
	// may have been lost.
	p.Bound = p.TTL*5/2 + p.Rest + 3*p.Heartbeat + p.Request + 2*time.Second
	if len(o.URLs) == 1 {
		p.Deployment = "given"
	} else if quorum {
		p.Deployment = "quorum"
	}
	p.Promises = promises(p.Deployment, p.Faults)
	return p, nil
}

// run is a run under way.
type run struct {
	Options
	plan     Plan
	dir      string
	urls     []string
	own      *servers.Deployment // nil if they are not
	admin    *admin
	succeed  succession // at servers that are not its own; nil if there are none that take over
	guard    *guard
	registry *register.Server
	rec      *history.Recorder
	crew     *crew
}

// Run does all of it and returns what it came to. The error tells of what kept it from running.
// Where ctx ends it early, the result is what there is until then.
func Run(ctx context.Context, o Options) (report Report, err error) {
	r := &run{Options: o}
	if r.plan, err = o.plan(); err != nil {
		return report, err
	}
	temporary := o.Out == ""
	if r.dir, err = prepare(o.Out); err != nil {
		return report, err
	}
	if r.guard, err = startGuard(r.dir); err != nil {
		return report, err
	}
	defer func() {
		if e := r.guard.finish(); e != nil && err == nil {
			err = fmt.Errorf("clean up: %w", e)
		}
		if temporary && (err != nil || report.Verdict == Pass) {
			_ = os.RemoveAll(r.dir)
		}
	}()
	if err := r.begin(ctx); err != nil {
		return report, err
	}
	defer r.end()
	if err := r.work(ctx); err != nil {
		return report, err
	}
	report, err = Judge(r.dir)
	report.Dir = r.dir
	return report, err
}

// prepare makes the directory of a run.
func prepare(out string) (string, error) {
	if out == "" {
		return os.MkdirTemp("", "redlatch-verify-")
	}
	if err := os.MkdirAll(out, 0o700); err != nil {
		return "", err
	}
	files, err := os.ReadDir(out)
	if err != nil {
		return "", err
	}
	if len(files) > 0 {
		return "", fmt.Errorf("%w: %s is not empty", redlatch.ErrInvalid, out)
	}
	return filepath.Abs(out)
}

// begin starts the servers, if they are to be, and looks whether the prefix is free.
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
		r.plan.Promises = promises(r.plan.Deployment, r.plan.Faults)
		r.urls = r.own.URLs
	}
	if r.admin, err = openAdmin(r.urls); err != nil {
		return err
	}
	if !r.plan.Own && needed(r.plan.Faults, successors) {
		var why error
		if r.succeed, why = r.admin.succession(ctx, r.urls[0]); why != nil {
			if err := r.leaveOut(successors, why); err != nil {
				return err
			}
			r.plan.Promises = promises(r.plan.Deployment, r.plan.Faults)
		}
	}
	for _, url := range r.urls {
		r.plan.Servers = append(r.plan.Servers, safeURL(url))
	}
	r.plan.Redis = r.admin.versions(ctx)
	found, err := r.admin.keys(ctx, r.plan.Prefix)
	if err != nil {
		return fmt.Errorf("look for keys under the prefix: %w", err)
	}
	if len(found) > 0 {
		return fmt.Errorf("%w: there are keys under %s already, such as %q", ErrRefused, r.plan.Prefix, found[0])
	}
	if !r.plan.Own {
		r.guard.sweepLater(r.urls, r.plan.Prefix)
	}
	if r.examine(ctx); silent(r.plan) {
		r.plan.Bound += time.Duration(2*r.plan.Workers) * silentTurn
	}
	if r.registry, err = register.Listen(filepath.Join(r.dir, "r.sock")); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r.plan, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dir, planFile), text, 0o600); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(r.dir, supervisorFile))
	if err != nil {
		return err
	}
	r.rec = history.NewRecorder(file)
	if r.Plan != nil {
		r.Plan(r.plan)
	}
	return nil
}

// silentTurn is what the turn of a process takes where no messages arrive: its waiters ask three to
// five times a second. A caller that locks two names waits for the turns of both.
const silentTurn = 350 * time.Millisecond

// examine has the doctor look at the servers. What it finds is told in the report, and judges nothing.
func (r *run) examine(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	o := doctor.Options{URLs: r.urls, Prefix: r.plan.Prefix, TTL: r.plan.TTL, Look: 100 * time.Millisecond}
	_ = doctor.Examine(ctx, o, func(f doctor.Finding) { r.plan.Doctor = append(r.plan.Doctor, f) })
}

// end closes what begin opened.
func (r *run) end() {
	if r.registry != nil {
		_ = r.registry.Close()
	}
	_ = os.Remove(filepath.Join(r.dir, "r.sock"))
	r.admin.close()
	if r.own != nil {
		r.own.Stop()
	}
	_ = os.RemoveAll(filepath.Join(r.dir, ".servers"))
}

// work has the workers work, does harm, lets them be, and looks at what they left.
func (r *run) work(ctx context.Context) error {
	r.crew = newCrew(r)
	defer r.crew.kill()
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
		r.crew.order(worker.Order{Do: "calm"})
		r.rec.Note(history.Event{Type: history.Calm})
		lateness := watchClock(ctx, calm)
		r.rec.Note(history.Event{Type: history.Fault, Name: lateClock, Count: int64(lateness)})
	}
	r.crew.dismiss()
	r.leftovers(context.WithoutCancel(ctx))
	for _, one := range r.registry.Results() {
		r.rec.Note(history.Event{Type: history.Final, Name: one.Name, Value: one.Value, Bare: one.Bare, Count: one.Lost})
	}
	return r.rec.Err()
}

// lateClock is how much later than it should a timer fired in the quiet part: on a machine that is
// busy with other things, waiters wait longer.
const lateClock = "late clock"

// lateTimes is how many times that is added to the bound within which waiters are served.
const lateTimes = 5

// watchClock lets time pass and returns by how much a timer was late at most. It takes longer by what
// is added to the bound for that, so that a waiter that is never served is found all the same.
func watchClock(ctx context.Context, d time.Duration) (late time.Duration) {
	const step = 20 * time.Millisecond
	for began := time.Now(); time.Since(began) < d+min(lateTimes*late, d) && ctx.Err() == nil; {
		before := time.Now()
		time.Sleep(step)
		late = max(late, time.Since(before)-step)
	}
	return late
}

// leftovers notes the keys that stay behind, once what may take its time has had it.
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

// progress tells how it goes until it is stopped.
func (r *run) progress() (stop func()) {
	if r.Tell == nil {
		return func() {}
	}
	began, done, ended := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-done:
				return
			}
			p := r.crew.progress()
			p.Elapsed, p.HandOvers = time.Since(began), r.registry.HandOvers()
			r.Tell(p)
		}
	}()
	return func() { close(done); <-ended }
}
