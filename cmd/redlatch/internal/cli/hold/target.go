package hold

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/report"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/window"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// target says which kind of lock a command runs under. The zero value is a mutex.
type target struct {
	try               bool // not to wait in line
	shared, exclusive bool
	permits           string
	slots             int
	slot              redlatch.SlotOptions
	once              bool
	job               redlatch.JobOptions
	adopted           string                // the text of a lease to go on with, or ""
	force             redlatch.ForceOptions // to take the lock from its owner, if there is one
	election          bool                  // of `redlatch elect`
	value             string

	taken, of int64 // what permits says
}

func (t *target) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&t.shared, "shared", false, "a read-write lock, for reading")
	flags.BoolVar(&t.exclusive, "exclusive", false, "a read-write lock, for writing")
	flags.StringVar(&t.permits, "permits", "", "a semaphore: `k/n` for k of its n permits")
	flags.IntVar(&t.slots, "slot-pool", 0, "one of `N` numbered slots, passed to the command as REDLATCH_SLOT")
	flags.StringVar(&t.slot.Instance, "instance", "", "with --slot-pool: `NAME` gets its last slot again")
	flags.DurationVar(&t.slot.Quarantine, "quarantine", 0, "with --slot-pool: rest of a lost slot")
	flags.BoolVar(&t.once, "once", false, "run at most once in a --window, over all hosts")
	flags.DurationVar(&t.job.Window, "window", 0, "with --once: no other run starts for this long")
	app.Between(flags, "slot-pool", &t.slots, 1, 1<<20)
	app.Between(flags, "quarantine", &t.slot.Quarantine, time.Millisecond, app.MaxTTL)
	app.Between(flags, "window", &t.job.Window, app.MinTTL, 366*24*time.Hour)
	flags.StringVar(&t.force.Owner, "take-by-force", "", "take it from this `OWNER`, as inspect shows it")
	flags.StringVar(&t.force.Reason, "reason", "", "with --take-by-force: `TEXT` for the holder")
}

// kindsOfLock are the flags that say which kind of lock it is.
const kindsOfLock = "shared exclusive permits slot-pool once"

// clashes lists the flags of the acquiring commands that exclude each other.
var clashes = []app.Rule{
	app.Clash("try", "wait", "--try never waits, so it does not go with --wait", "--try gives up at once, --wait D gives up after D"),
	app.Clash("try", "max-waiters", "--try never waits, so it does not go with --max-waiters", ""),
	app.Clash(
		"adopt", "wait try max-waiters taken-exit-code instance quarantine window "+kindsOfLock,
		"--adopt goes on with a lease, whose kind the text says, and never waits: leave --OTHER out", "",
	),
	app.Clash("take-by-force", "wait try max-waiters adopt "+kindsOfLock, "--take-by-force takes a mutex, and never waits: leave --OTHER out", ""),
	app.Clash(
		kindsOfLock, kindsOfLock, "of --shared, --exclusive, --permits, --slot-pool and --once, give one at most",
		"each of them is another kind of lock",
	),
	app.Clash("min-hold", "once slot-pool", "--min-hold goes with neither --once, which has a --window, nor --slot-pool", ""),
	app.Clash("once", "wait try max-waiters", "--once never waits, so it goes with none of --wait, --try and --max-waiters", ""),
}

// check refuses values that make no sense, and flags without those that they need.
func (t *target) check(typed *pflag.FlagSet) error {
	switch {
	case typed.Changed("take-by-force") && t.force.Owner == "":
		return exit.Usagef("`redlatch inspect NAME` shows it", "--take-by-force needs the owner of the lock, and got an empty one")
	case typed.Changed("permits"):
		if err := t.parsePermits(); err != nil {
			return err
		}
	case t.once && !typed.Changed("window"):
		return exit.Usagef("`--once --window 30m` for a job that starts every hour", "--once needs a --window")
	}
	return cmp.Or(
		app.Lacks(typed, "take-by-force", "reason"), app.Lacks(typed, "slot-pool", "instance quarantine"), app.Lacks(typed, "once", "window"))
}

func (t *target) parsePermits() error {
	k, n, ok := strings.Cut(t.permits, "/")
	var e1, e2 error
	t.taken, e1 = strconv.ParseInt(k, 10, 64)
	t.of, e2 = strconv.ParseInt(n, 10, 64)
	if !ok || e1 != nil || e2 != nil || t.taken < 1 || t.taken > t.of || t.of > 1<<40 {
		return exit.Usagef("`--permits 2/10` for two of ten", "--permits is %q: it must be k/n, with k from 1 to n", t.permits)
	}
	return nil
}

// held is the lease that a command runs under.
type held struct {
	*redlatch.Lease
	slot    *int // nil unless it is a slot of a pool
	release func(ctx context.Context) error
}

// take acquires the lock. It waits in line if the flags allow that.
func (t *target) take(ctx context.Context, c *redlatch.Client, name string) (*held, error) {
	if t.once {
		lease, end, err := window.Begin(ctx, c.Job(name, t.job))
		if err != nil {
			return nil, err
		}
		return &held{Lease: lease, release: func(context.Context) error { return end() }}, nil
	}
	lease, err := t.acquireLease(ctx, c, name)
	if err != nil {
		return nil, err
	}
	h := &held{Lease: lease, release: lease.Release}
	if slot, err := lease.Slot(); err == nil {
		id, err := slot.ID()
		if err != nil {
			return nil, errors.Join(err, lease.Release(ctx))
		}
		h.slot = &id
	}
	return h, nil
}

// acquireLease acquires a lock of any kind but a job, whose end is not a plain release.
func (t *target) acquireLease(
	ctx context.Context, c *redlatch.Client, name string,
) (*redlatch.Lease, error) {
	switch {
	case t.adopted != "":
		return adopt(ctx, c, t.adopted)
	case t.force.Owner != "":
		lease, err := c.Mutex(name).TakeByForce(ctx, t.force)
		if errors.Is(err, redlatch.ErrNotHeld) {
			err = exit.New(exit.Taken, err,
				"nothing was done; `redlatch inspect` shows the current owner, if there is one")
		}
		return lease, err
	case t.slots > 0:
		pool := c.SlotPool(name, t.slots, t.slot)
		acquire := pool.Acquire
		if t.try {
			acquire = pool.TryAcquire
		}
		slot, err := acquire(ctx)
		if err != nil {
			return nil, err
		}
		return slot.Lease, nil
	case t.shared && t.try:
		return c.RWMutex(name).TryRLock(ctx)
	case t.shared:
		return c.RWMutex(name).RLock(ctx)
	case t.exclusive && t.try:
		return c.RWMutex(name).TryLock(ctx)
	case t.exclusive:
		return c.RWMutex(name).Lock(ctx)
	case t.of > 0 && t.try:
		return c.Semaphore(name, t.of).TryAcquire(ctx, t.taken)
	case t.of > 0:
		return c.Semaphore(name, t.of).Acquire(ctx, t.taken)
	case t.election && t.try:
		return c.Election(name).TryCampaign(ctx, cmp.Or(t.value, itself()))
	case t.election:
		return c.Election(name).Campaign(ctx, cmp.Or(t.value, itself()))
	case t.try:
		return c.Mutex(name).TryLock(ctx)
	}
	return c.Mutex(name).Lock(ctx)
}

// itself returns the value of a leader that has no --value.
func itself() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// adopt goes on with the lease that a text names. The text also says of which kind it is.
func adopt(ctx context.Context, c *redlatch.Client, text string) (*redlatch.Lease, error) {
	lease, err := c.Adopt(ctx, text, redlatch.LockOptions{})
	if !errors.Is(err, redlatch.ErrNotHeld) {
		return lease, err
	}
	was, _ := lock.ParseText(text) // parsed before, so this cannot fail
	info, failed := c.Inspect(ctx, was.Name)
	if failed != nil {
		return nil, failed
	}
	for _, h := range info.Holders {
		if h.Token == was.Token && !h.Resting {
			err := fmt.Errorf("%q is %s, which goes on with this lease", was.Name, report.Summary(info))
			return nil, exit.New(exit.Taken, err, "it is released when that ends")
		}
	}
	return nil, exit.New(exit.Lost, err,
		"if it was locked with another --redis or --prefix, give the same here. "+
			"If `run --adopt` went on with it, that has released it or said that it was lost. "+
			"Otherwise it ended before, and the work may have overlapped with that of the next holder")
}
