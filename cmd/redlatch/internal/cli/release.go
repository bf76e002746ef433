package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
)

const releaseHelp = `Take a lock from whoever holds it, and let in the next in line.

The holder is not stopped by this: its lease is lost. It learns that at once if it listens, as a process does that has waited
in line for a lock, and otherwise when it next extends the lease, after a third of its TTL at most. Until then two may be at
work; the fencing token tells the resource which one to refuse.

Without --force nothing is done, and the exit code is 64.`

const releaseExamples = `  redlatch release nightly            says whom it would be taken from, and does nothing
  redlatch release nightly --force
  redlatch release ids --force --owner rl-ABC-1    of several holders, this one
  redlatch release ids --force --all`

func newReleaseCommand(a *app) *cobra.Command {
	var how releasing
	cmd := &cobra.Command{
		Use:     "release NAME --force",
		Short:   "Take a lock from whoever holds it",
		Long:    releaseHelp,
		Example: releaseExamples,
		Args:    oneName,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.release(cmd.Context(), args[0], how) },
	}
	cmd.Flags().BoolVar(&how.force, "force", false, "do it")
	cmd.Flags().StringVar(&how.owner, "owner", "", "from this `OWNER` alone, as inspect shows it")
	cmd.Flags().BoolVar(&how.all, "all", false, "from all who hold it")
	return cmd
}

// releasing is what the flags say.
type releasing struct {
	force, all bool
	owner      string
}

func (a *app) release(ctx context.Context, name string, how releasing) error {
	if how.all && how.owner != "" {
		return usagef("", "--owner and --all contradict each other")
	}
	client, err := a.open(ctx, redlatch.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	info, err := client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if noLock(info) {
		_, err := client.ForceRelease(ctx, name, "") // which refuses it
		return err
	}
	if len(info.Holders) == 0 {
		return &failure{exitFailure, fmt.Errorf("nobody holds %q", name), ""}
	}
	holders, err := how.choose(info)
	if err != nil {
		return err
	}
	if !how.force {
		var all []string
		for _, h := range holders {
			all = append(all, holderFor(h, info.At))
		}
		return usagef(how.again(a, name), "%q is held by %s: its work may still run", name, strings.Join(all, ", "))
	}
	for _, h := range holders {
		// From the holders that were looked at: a holder that comes after them in this moment is
		// not meant.
		_, err = client.ForceRelease(ctx, name, h.Owner)
		if errors.Is(err, redlatch.ErrNotHeld) {
			return &failure{exitFailure, fmt.Errorf("%s released %q by itself in this moment: nothing was done", holder(h), name), ""}
		}
		if err != nil {
			return err
		}
		if err := a.answer("took %q from %s\n", name, holderFor(h, info.At)); err != nil {
			return err
		}
	}
	return nil
}

// again is the command line that does it.
func (r releasing) again(a *app, name string) string {
	args := []string{"release", "--force"}
	if r.all {
		args = append(args, "--all")
	}
	if r.owner != "" {
		args = append(args, "--owner", r.owner)
	}
	return "`" + a.again(append(args, name)...) + "`"
}

// choose is whom to take the lock from. Of several it wants to be told which.
func (r releasing) choose(info redlatch.LockInfo) ([]redlatch.Holder, error) {
	if r.owner != "" {
		for _, h := range info.Holders {
			if h.Owner == r.owner {
				return []redlatch.Holder{h}, nil
			}
		}
		return nil, &failure{exitFailure, fmt.Errorf("%q is not held by %q: %s", info.Name, r.owner, summary(info)), ""}
	}
	if len(info.Holders) > 1 && !r.all {
		return nil, usagef("give --owner OWNER, as `redlatch inspect` shows it, or --all", "%q has %d holders", info.Name, len(info.Holders))
	}
	return info.Holders, nil
}

// again is a command line for the same server and prefix, without the password.
func (a *app) again(args ...string) string {
	line := []string{"redlatch"}
	for _, url := range a.redis {
		line = append(line, "--redis", withoutPassword(url))
	}
	if a.prefix != defaultPrefix {
		line = append(line, "--prefix", shellQuote(a.prefix))
	}
	for _, arg := range args {
		line = append(line, shellQuote(arg))
	}
	return strings.Join(line, " ")
}

func withoutPassword(redis string) string {
	u, err := url.Parse(redis)
	if err != nil {
		return "URL"
	}
	if _, secret := u.User.Password(); secret || u.RawQuery != "" {
		return "URL"
	}
	return shellQuote(redis)
}

// shellQuote is s as a shell reads it back.
func shellQuote(s string) string {
	if regexp.MustCompile(`^[\w@%+=:,./-]+$`).MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
