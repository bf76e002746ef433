// Package verify puts redlatch to the test on a deployment of Redis, as docs/verify.md says: worker
// processes take turns with locks of every kind while faults strike, and write down what they asked
// and believed. The supervisor then searches their records for what locks must not do.
//
// The supervisor judges after the workers have ended, and from the files alone. So a run can be
// judged again later.
package verify

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
)

// Run does all of it and returns the report. The error says what kept it from running. If ctx ends
// it early, the report covers what happened until then.
func Run(ctx context.Context, o Options) (report Report, err error) {
	r := &run{Options: o}
	if r.plan, err = o.plan(); err != nil {
		return report, err
	}
	temporary := o.Out == ""
	if r.dir, err = prepare(o.Out); err != nil {
		return report, err
	}
	program, err := os.Executable()
	if err != nil {
		return report, err
	}
	if r.Command == nil {
		r.Command = []string{program, WorkerArg}
	}
	if r.guard, err = startGuard(program, r.dir); err != nil {
		return report, err
	}
	defer func() {
		if e := errors.Join(r.guard.hangUp(), r.guard.wait()); e != nil && err == nil {
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
	made := os.MkdirAll(out, 0o700)
	files, err := os.ReadDir(out)
	if err = cmp.Or(made, err); err != nil {
		return "", fmt.Errorf("--out: %w", err)
	}
	if len(files) > 0 {
		return "", fmt.Errorf("%w: --out %s is not empty", redlatch.ErrInvalid, out)
	}
	return filepath.Abs(out)
}

// plan fills in the plan of a run, and refuses options that make no sense.
func (o Options) plan() (Plan, error) {
	p := o.Plan
	p.Own, p.Began = len(o.URLs) == 0, time.Now()
	p.Prefix += "verify-" + strings.ToLower(rand.Text()[:10]) + ":"
	switch len(o.URLs) {
	case 0:
	case 1:
		p.Deployment = "given"
	default:
		p.Deployment = "quorum"
	}
	p.Actors, p.Permits, p.Slots = 2, 5, 3
	p.Heartbeat, p.Request = (p.TTL / 3).Truncate(time.Millisecond), p.TTL*6/10
	p.Rest, p.Window = p.TTL*3/10, p.TTL*3/10
	possible := Kinds(p.Deployment == "quorum")
	if len(p.Kinds) == 0 {
		p.Kinds = possible
	}
	for _, kind := range p.Kinds {
		if !slices.Contains(possible, kind) {
			return p, fmt.Errorf("%w: there is no kind %q to verify here: %s",
				redlatch.ErrInvalid, kind, strings.Join(possible, ", "))
		}
	}
	// A holder that began before the last fault works for 1.5 TTL at most; if it crashed, its lease
	// and its rest follow. The line may need three heartbeats to find a dead waiter, and the request
	// may have been lost.
	p.Bound = p.TTL*5/2 + p.Rest + 3*p.Heartbeat + p.Request + 2*time.Second
	return p, p.chooseFaults(o.Disrupt)
}
