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

The holder is not stopped by this: its lease is lost, which it learns at once if it listens, and otherwise when it next
extends it. Until then two may be at work; the fencing token tells the resource which one to refuse.`

const releaseExamples = `  redlatch release nightly            says whom it would be taken from
  redlatch release nightly --force`

func newReleaseCommand(a *app) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:     "release NAME --force",
		Short:   "Take a lock from whoever holds it",
		Long:    releaseHelp,
		Example: releaseExamples,
		Args:    oneName,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.release(cmd.Context(), args[0], force) },
	}
	cmd.Flags().BoolVar(&force, "force", false, "do it")
	return cmd
}

func (a *app) release(ctx context.Context, name string, force bool) error {
	client, err := a.open(ctx, redlatch.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	info, err := client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if len(info.Holders) == 0 {
		return &failure{exitFailure, fmt.Errorf("nobody holds %q", name), ""}
	}
	holder := info.Holders[0]
	if !force {
		return usagef("`"+a.again("release", "--force", name)+"`", "%q is held by %s: its work may still run", name, who(holder))
	}
	// From the holder that was looked at: whoever comes after it in this moment is not meant.
	_, err = client.ForceRelease(ctx, name, holder.Owner)
	if errors.Is(err, redlatch.ErrNotHeld) {
		return &failure{exitFailure, fmt.Errorf("%s released %q by itself in this moment: nothing was done", process(holder), name), ""}
	}
	if err != nil {
		return err
	}
	return a.answer("took %q from %s\n", name, who(holder))
}

// again is a command line for the same server and prefix, without the password.
func (a *app) again(args ...string) string {
	line := []string{"redlatch"}
	if a.redis != "" {
		line = append(line, "--redis", withoutPassword(a.redis))
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
