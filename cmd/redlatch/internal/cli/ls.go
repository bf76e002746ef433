package cli

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

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
	if _, err := matches(pattern, ""); err != nil {
		return usagef("* any text, ? one character, [a-z] one of these", "pattern %q makes no sense", pattern)
	}
	client, err := a.open(ctx, redlatch.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	locks, err := collect(ctx, client, pattern)
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

// collect returns the locks whose names match, by name.
func collect(ctx context.Context, client *redlatch.Client, pattern string) ([]redlatch.LockInfo, error) {
	var locks []redlatch.LockInfo
	for info, err := range client.List(ctx) {
		if err != nil {
			return nil, err
		}
		if ok, _ := matches(pattern, info.Name); ok {
			locks = append(locks, info)
		}
	}
	slices.SortFunc(locks, func(a, b redlatch.LockInfo) int { return cmp.Compare(a.Name, b.Name) })
	return locks, nil
}

// matches is path.Match for names, in which a slash is nothing special.
func matches(pattern, name string) (bool, error) {
	// No name contains the character that stands in for it.
	flat := strings.NewReplacer("/", "\x00")
	return path.Match(flat.Replace(pattern), flat.Replace(name))
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
