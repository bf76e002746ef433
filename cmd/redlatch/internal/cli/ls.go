package cli

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
)

const listExamples = `  redlatch ls
  redlatch ls 'invoice:*'
  redlatch ls --json | jq 'select(.waiters | length > 10) | .name'`

func newListCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [PATTERN]",
		Short: "List the names that somebody holds or waits for",
		Long: "List the names that somebody holds or waits for, and keys under the prefix that are no locks.\n\n" + beliefHelp +
			"PATTERN is matched against the whole name: * any text, ? one character, " +
			"[a-z] one of these.\n\n" + reportHelp,
		Example: listExamples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("quote the pattern, or the shell replaces it by names of files", "ls takes one pattern, got %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			pattern := "*"
			if len(args) == 1 {
				pattern = args[0]
			}
			return a.list(cmd.Context(), pattern, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line")
	return cmd
}

func (a *app) list(ctx context.Context, pattern string, asJSON bool) error {
	if _, err := path.Match(pattern, ""); err != nil {
		return usagef("* any text, ? one character, [a-z] one of these", "pattern %q makes no sense", pattern)
	}
	client, err := a.open(ctx, redlatch.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	locks, err := a.collect(ctx, client, pattern)
	switch {
	case err != nil:
		return err
	case asJSON:
		for _, info := range locks {
			if err := a.answerJSON(newLockJSON(info)); err != nil {
				return err
			}
		}
		return nil
	case len(locks) == 0:
		a.say("nobody holds or waits for a lock here%s", where(pattern, a.prefix))
		return nil
	}
	return a.table(locks)
}

// where says what was looked at, as far as it was not everything.
func where(pattern, prefix string) string {
	var s string
	if pattern != "*" {
		s = fmt.Sprintf(" that matches %q", pattern)
	}
	if prefix != defaultPrefix {
		s += fmt.Sprintf(" under the prefix %q", prefix)
	}
	return s
}

// collect returns the locks whose names match, by name. It tells how far it is when that takes
// long.
func (a *app) collect(ctx context.Context, client *redlatch.Client, pattern string) ([]redlatch.LockInfo, error) {
	var keys, names atomic.Int64
	defer report(func() {
		a.say("still looking: %d names in use among the first %d keys", names.Load(), keys.Load())
	})()
	var locks []redlatch.LockInfo
	o := redlatch.ListOptions{Pattern: pattern, Progress: func(n int) { keys.Store(int64(n)) }}
	for info, err := range client.List(ctx, o) {
		if err != nil {
			return nil, err
		}
		names.Add(1)
		locks = append(locks, info)
	}
	slices.SortFunc(locks, func(a, b redlatch.LockInfo) int { return cmp.Compare(a.Name, b.Name) })
	return locks, nil
}

// report calls say after a second, and then every few seconds, until stop is called. No call is
// under way when stop returns.
func report(say func()) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for wait := time.Second; ; wait = 5 * time.Second {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
				say()
			case <-end:
				timer.Stop()
				return
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

func (a *app) table(locks []redlatch.LockInfo) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tKIND\tHOLDER\tFOR\tEXPIRES IN\tTOKEN\tWAITING")
	for _, info := range locks {
		who, held, expires := "-", "-", "-"
		if info.Abandoned() {
			who = "nobody: only the dead wait"
		}
		if n := len(info.Holders); n > 0 {
			who, held, expires = holder(info.Holders[0]), age(info.Holders[0].Since, info.At), expiry(info.Remaining)
			if info.Holders[0].Dead {
				who += ", believed dead"
			}
			if n > 1 {
				who += fmt.Sprintf(" and %d more", n-1)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n",
			plain(info.Name), kindOf(info), who, held, expires, info.Token, waiting(info))
	}
	return w.Flush()
}
