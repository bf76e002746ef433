package cli

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/fleet"
)

// matching is what the flags of `redlatch release --pattern` say.
type matching struct {
	pattern string
	before  string
	reason  string    // that the holders are told
	until   time.Time // what before says; zero for now
}

// withPattern adds --pattern to `redlatch release`.
func withPattern(a *app, cmd *cobra.Command) *cobra.Command {
	var m matching
	flags := cmd.Flags()
	flags.StringVar(&m.pattern, "pattern", "", "all locks whose names match `PATTERN`, as ls has it")
	flags.StringVar(&m.before, "before", "", "with --pattern: only from holders since before `TIME`, as the look without --force prints it")
	named, args := cmd.RunE, cmd.Args
	cmd.Args = func(cmd *cobra.Command, typed []string) error {
		if !flags.Changed("pattern") {
			return args(cmd, typed)
		}
		return m.check(cmd, typed)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !flags.Changed("pattern") {
			if flags.Changed("before") {
				return usagef("", "--before goes with --pattern")
			}
			return named(cmd, args)
		}
		force, _ := flags.GetBool("force")
		m.reason, _ = flags.GetString("reason")
		return m.release(cmd.Context(), a, force)
	}
	return cmd
}

func (m *matching) check(cmd *cobra.Command, typed []string) error {
	if len(typed) > 0 {
		return usagef("quote the pattern, or the shell replaces it by names of files", "release --pattern takes no names, got %q", typed[0])
	}
	if cmd.Flags().Changed("owner") || cmd.Flags().Changed("all") {
		return usagef("", "--pattern takes locks from all their holders: leave --owner and --all out")
	}
	if _, err := path.Match(m.pattern, ""); err != nil || m.pattern == "" {
		return usagef("* any text, ? one character, [a-z] one of these", "pattern %q makes no sense", m.pattern)
	}
	if m.before == "" {
		return nil
	}
	var err error
	if m.until, err = time.Parse(time.RFC3339Nano, m.before); err != nil {
		return usagef("2026-11-22T03:04:05.678Z is one", "--before is %q, which is no time", m.before)
	}
	return nil
}

// release takes the locks that match, or says which it would take.
func (m *matching) release(ctx context.Context, a *app, force bool) error {
	client, err := a.open(ctx, redlatch.Options{Program: releaser(), Journal: a.noting()})
	if err != nil {
		return err
	}
	defer client.Close()
	locks, err := a.collect(ctx, client, m.pattern)
	if err != nil {
		return err
	}
	count := 0
	var looked time.Time // the earliest moment at which a lock was looked at
	for _, info := range locks {
		for _, h := range info.Holders {
			if !m.meant(h) {
				continue
			}
			count++
			if looked.IsZero() || info.At.Before(looked) {
				looked = info.At
			}
			if err := m.take(ctx, a, client, info, h, force); err != nil {
				return err
			}
		}
	}
	switch {
	case count == 0:
		return &failure{exitFailure, fmt.Errorf("no lock%s is held%s", where(m.pattern, a.prefix), m.since()), ""}
	case !force:
		args := []string{"release", "--pattern", m.pattern, "--before", looked.UTC().Format(time.RFC3339Nano), "--force"}
		if m.reason != "" {
			args = append(args, "--reason", m.reason)
		}
		return usagef("`"+a.again(args...)+"`", "nothing was done, and the work under them may still run (%d)", count)
	}
	return nil
}

// meant reports whether a holder is one of those to take from.
func (m *matching) meant(h redlatch.Holder) bool {
	return m.until.IsZero() || !h.Since.IsZero() && h.Since.Before(m.until)
}

// since says what --before leaves out.
func (m *matching) since() string {
	if m.until.IsZero() {
		return ""
	}
	return " since before " + m.before
}

// take takes a lock from one holder, or says that it would.
func (m *matching) take(ctx context.Context, a *app, client *redlatch.Client, info redlatch.LockInfo, h redlatch.Holder, force bool) error {
	if !force {
		return a.answer("would take %q from %s\n", info.Name, fleet.HolderLine(h, info.At))
	}
	_, err := client.ForceRelease(ctx, info.Name, redlatch.ForceOptions{Owner: h.Owner, Reason: m.reason})
	switch {
	case errors.Is(err, redlatch.ErrNotHeld):
		a.say("%s released %q by itself in this moment", fleet.HolderText(h), info.Name)
		return nil
	case err != nil:
		return err
	}
	return a.answer("took %q from %s\n", info.Name, fleet.HolderLine(h, info.At))
}
