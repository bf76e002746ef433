package look

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/report"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/pace"
	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// listing has the flags of ls.
type listing struct {
	pattern   string
	sort      string
	minWait   time.Duration
	minHeld   time.Duration
	limit     int
	deadlocks bool
	mute      bool // too few nodes of a quorum vote, so names may be missing
}

func newListCommand(a *app.App) *cobra.Command {
	var l listing
	cmd := app.Command("ls", app.OnePattern("pattern"), func(cmd *cobra.Command, args []string) error {
		l.pattern = cmp.Or(strings.Join(args, ""), "*")
		if err := l.check(cmd.Flags()); err != nil {
			return err
		}
		return connect(cmd.Context(), a, redlatch.Options{}, func(client *redlatch.Client, _ server) error {
			l.mute = len(warnOfVotes(cmd.Context(), a, client, "")) > 0
			if l.deadlocks {
				return listDeadlocks(cmd.Context(), a, client, l)
			}
			return listLocks(cmd.Context(), a, client, l)
		})
	})
	flags := cmd.Flags()
	flags.BoolVar(&a.JSON, "json", false, "print JSON, one object a line")
	flags.StringVar(&l.sort, "sort", "name", "`ORDER`: "+strings.Join(fleet.Sorts, ", "))
	flags.DurationVar(&l.minWait, "min-wait", 0, "only names with a waiter that has waited this long")
	flags.DurationVar(&l.minHeld, "min-held", 0, "only names with a holder that has held this long")
	flags.IntVar(&l.limit, "limit", 0, "only the first `N` in that order (default: all)")
	app.AtLeast(flags, "min-wait", &l.minWait, 0)
	app.AtLeast(flags, "min-held", &l.minHeld, 0)
	app.AtLeast(flags, "limit", &l.limit, 0)
	flags.BoolVar(&l.deadlocks, "deadlocks", false, "list processes that wait for each other")
	app.Offer(cmd, "sort", fleet.Sorts...)
	return cmd
}

// check refuses flags that make no sense.
func (l *listing) check(typed *pflag.FlagSet) error {
	if !slices.Contains(fleet.Sorts, l.sort) {
		return badSort(l.sort)
	}
	return app.Refuse(typed, app.Clash(
		"deadlocks", "sort min-wait min-held limit", "--OTHER is not for --deadlocks, which lists cycles, not names", "`redlatch ls --deadlocks`",
	))
}

// badSort returns the error for an unknown order.
func badSort(order string) error {
	return exit.Usagef(strings.Join(fleet.Sorts, ", ")+" are known", "unknown --sort %q", order)
}

// choose returns the locks that the flags ask for, in order, and how many --limit leaves out.
func (l listing) choose(infos []redlatch.LockInfo) (chosen []*fleet.Lock, more int) {
	var locks []*fleet.Lock
	for _, info := range infos {
		lock := fleet.NewLock(info, time.Time{})
		if lock.Waiters = info.Waiters; lock.Held() >= l.minHeld && lock.Waited >= l.minWait {
			locks = append(locks, lock)
		}
	}
	chosen = fleet.Query{Sort: l.sort}.Select(locks)
	if l.limit > 0 && len(chosen) > l.limit {
		chosen, more = chosen[:l.limit], len(chosen)-l.limit
	}
	return chosen, more
}

// listLocks shows the locks.
func listLocks(ctx context.Context, a *app.App, client *redlatch.Client, l listing) error {
	infos, missing := collect(ctx, a, client, l.pattern)
	locks, more := l.choose(infos)
	if a.JSON {
		for _, lock := range locks {
			if err := a.AnswerJSON(report.LockJSON(lock.LockInfo)); err != nil {
				return err
			}
		}
		return missing
	}
	var err error
	if len(locks) > 0 {
		err = report.Table(a.Stdout, locks)
	}
	switch {
	case err != nil:
	case more > 0:
		a.Say("and %d more", more)
	case missing != nil:
	case len(locks) == 0 && l.mute:
		a.Say("no lock is known to be held or waited for here%s", where(l.pattern, a.Prefix))
	case len(locks) == 0 && (l.minWait > 0 || l.minHeld > 0):
		a.Say("no lock here%s has been held or waited for that long", where(l.pattern, a.Prefix))
	case len(locks) == 0:
		a.Say("nobody holds or waits for a lock here%s", where(l.pattern, a.Prefix))
	}
	return cmp.Or(err, missing)
}

// listDeadlocks shows the cycles of waiters.
func listDeadlocks(ctx context.Context, a *app.App, client *redlatch.Client, l listing) error {
	all, err := client.Deadlocks(ctx)
	if err != nil {
		return err
	}
	found := 0
	for _, d := range all {
		if !concerns(d, l.pattern) {
			continue
		}
		found++
		if err := a.AnswerAs(report.DeadlockJSON(d), report.DeadlockText(d)); err != nil {
			return err
		}
	}
	if found > 0 {
		return exit.Silent(exit.Failed)
	}
	if !a.JSON {
		a.Say("there is no deadlock here%s", where(l.pattern, a.Prefix))
	}
	return nil
}

// concerns reports whether one of the waiters of a deadlock waits for a name that matches.
func concerns(d redlatch.Deadlock, pattern string) bool {
	return slices.ContainsFunc(d.Waiters, func(w redlatch.Blocked) bool {
		ok, _ := keys.Match(pattern, w.Lock)
		return ok || pattern == w.Lock
	})
}

// where names the pattern and the prefix of a search, as far as they are not the defaults.
func where(pattern, prefix string) string {
	var s string
	if pattern != "*" {
		s = fmt.Sprintf(" that matches %q", pattern)
	}
	if prefix != app.DefaultPrefix {
		s += fmt.Sprintf(" under the prefix %q", prefix)
	}
	return s
}

// collect returns the locks whose names match, in no order. If it returns an error, some are
// missing. It reports its progress if it takes long.
func collect(ctx context.Context, a *app.App, client *redlatch.Client, pattern string) ([]redlatch.LockInfo, error) {
	var keys, names atomic.Int64
	defer progress(func() {
		n := names.Load()
		a.Say("still looking: %d names in use among the %d matching keys so far", n, max(keys.Load(), n)) // keys come by the thousand
	})()
	var locks []redlatch.LockInfo
	o := redlatch.ListOptions{Pattern: pattern, Progress: func(n int) { keys.Store(int64(n)) }}
	for info, err := range client.List(ctx, o) {
		if err != nil && len(locks) > 0 {
			err = fmt.Errorf("names may be missing: %w", err)
		}
		if err != nil {
			return locks, err
		}
		names.Add(1)
		locks = append(locks, info)
	}
	return locks, nil
}

// progress calls say after a second, and then every few seconds, until stop is called.
func progress(say func()) (stop func()) { return pace.Every(time.Second, 5*time.Second, say) }
