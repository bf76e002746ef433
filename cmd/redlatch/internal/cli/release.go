package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/fleet"
)

func newReleaseCommand(a *app) *cobra.Command {
	var how releasing
	cmd := command("release", oneName, func(cmd *cobra.Command, args []string) error { return a.release(cmd.Context(), args[0], how) })
	cmd.Flags().BoolVar(&how.force, "force", false, "do it")
	cmd.Flags().StringArrayVar(&how.owners, "owner", nil, "from this `OWNER` alone, as inspect shows it; may be repeated")
	cmd.Flags().BoolVar(&how.all, "all", false, "from all who hold it")
	cmd.Flags().StringVar(&how.reason, "reason", "", "`TEXT` for the holder and for who inspects the lock")
	return cmd
}

// releasing is what the flags say.
type releasing struct {
	force, all bool
	owners     []string
	reason     string
}

// fresh is the age up to which a holder may have come after the operator looked.
const fresh = 5 * time.Second

func (a *app) release(ctx context.Context, name string, how releasing) error {
	if how.all && len(how.owners) > 0 {
		return usagef("", "--owner and --all contradict each other")
	}
	client, err := a.open(ctx, redlatch.Options{Program: releaser(), Journal: a.noting()})
	if err != nil {
		return err
	}
	defer client.Close()
	info, err := client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if noLock(info) {
		_, err := client.ForceRelease(ctx, name, redlatch.ForceOptions{}) // which refuses it
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
			all = append(all, fleet.HolderLine(h, info.At))
		}
		return usagef(how.again(a, name, holders), "%q is held by %s: its work may still run", name, strings.Join(all, ", "))
	}
	if err := a.confirm(how, info, holders); err != nil {
		return err
	}
	for _, h := range holders {
		// From the holders that were looked at: a holder that comes after them in this moment is
		// not meant.
		_, err = client.ForceRelease(ctx, name, redlatch.ForceOptions{Owner: h.Owner, Reason: how.reason})
		if errors.Is(err, redlatch.ErrNotHeld) {
			return &failure{exitFailure, fmt.Errorf("%s released %q by itself in this moment: nothing was done", fleet.HolderText(h), name), ""}
		}
		if err != nil {
			return err
		}
		if err := a.answer("took %q from %s\n", name, fleet.HolderLine(h, info.At)); err != nil {
			return err
		}
	}
	return nil
}

// releaser is what the holder is told as the program that took its lock.
func releaser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return "redlatch release by " + u.Username
	}
	return "redlatch release"
}

// confirm asks before it takes a lock from a holder that the operator may not have meant: it came
// only just now, perhaps after the same command had done what it should. Where no human is there to
// answer, confirm refuses.
func (a *app) confirm(how releasing, info redlatch.LockInfo, holders []redlatch.Holder) error {
	i := slices.IndexFunc(holders, func(h redlatch.Holder) bool {
		return !h.Resting && (h.Since.IsZero() || info.At.Sub(h.Since) < fresh)
	})
	if len(how.owners) > 0 || i < 0 {
		return nil
	}
	what := fmt.Sprintf("%q is held by %s, which may not be the holder that you mean", info.Name, fleet.HolderLine(holders[i], info.At))
	if !a.converses() {
		return usagef(how.again(a, info.Name, holders), "%s", what)
	}
	fmt.Fprintf(a.stderr, "redlatch: %s; take it? [y/N] ", what)
	answer, _ := bufio.NewReader(a.stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	return &failure{exitFailure, errors.New("nothing was done"), ""}
}

// converses reports whether a human reads stderr and types on stdin.
func (a *app) converses() bool {
	in, ok := a.stdin.(*os.File)
	out, ok2 := a.stderr.(*os.File)
	return ok && ok2 && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}

// again is the command line that does it. It names the owners, so that it can be repeated.
func (r releasing) again(a *app, name string, holders []redlatch.Holder) string {
	args := []string{"release", "--force"}
	for _, h := range holders {
		args = append(args, "--owner", h.Owner)
	}
	if r.reason != "" {
		args = append(args, "--reason", r.reason)
	}
	return "`" + a.again(append(args, name)...) + "`"
}

// choose is whom to take the lock from. Of several it wants to be told which.
func (r releasing) choose(info redlatch.LockInfo) ([]redlatch.Holder, error) {
	if len(r.owners) > 0 {
		chosen := slices.DeleteFunc(slices.Clone(info.Holders), func(h redlatch.Holder) bool {
			return !slices.Contains(r.owners, h.Owner)
		})
		if len(chosen) == 0 {
			return nil, &failure{exitFailure, fmt.Errorf("%q is not held by %q: %s", info.Name, strings.Join(r.owners, ", "), summary(info)), ""}
		}
		return chosen, nil
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
