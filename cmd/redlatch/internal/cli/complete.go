package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/report"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/demo"
	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// The bounds of a completion: a shell waits for it, and shows the names on a screen.
const (
	completionTime  = time.Second
	completionNames = 200
)

// completer completes what is typed.
type completer struct {
	app   *app.App
	typed []string // the arguments
}

// completeNames completes the first argument with the names that are in use.
func (c completer) completeNames(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.names(cmd.Context(), begun), cobra.ShellCompDirectiveNoFileComp
}

// completeRun completes a name and the two dashes after it; behind them is a command, of which the
// shell knows more.
func (c completer) completeRun(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch {
	case slices.Contains(c.typed[:len(c.typed)-1], "--"): // cobra adds one itself, so ArgsLenAtDash does not tell
		return nil, cobra.ShellCompDirectiveDefault
	case len(args) == 0 && !cmd.Flags().Changed("adopt"):
		return c.names(cmd.Context(), begun), cobra.ShellCompDirectiveNoFileComp
	case len(args) <= 1 && strings.HasPrefix("--", begun):
		return []cobra.Completion{cobra.CompletionWithDesc("--", "the command follows")}, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// names returns the names in use that begin so, with their holders; none if Redis does not tell
// within a moment.
func (c completer) names(ctx context.Context, begun string) []cobra.Completion {
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	c.app.Quiet = true
	client, err := c.app.Open(ctx, redlatch.Options{Program: "redlatch completion"})
	if err != nil {
		return nil
	}
	defer client.Close()
	var all []cobra.Completion
	for info, err := range client.List(ctx, redlatch.ListOptions{Pattern: keys.Escape(begun) + "*"}) {
		if err != nil || len(all) == completionNames {
			break
		}
		// A shell is to insert no name that needs quotes, and none that the command would read as a flag.
		if fleet.ShellWord(info.Name) == info.Name && !strings.HasPrefix(info.Name, "-") {
			all = append(all, cobra.CompletionWithDesc(info.Name, report.Summary(info)))
		}
	}
	slices.Sort(all)
	return all
}

// values are those that flags can have, for each name of a flag.
var values = map[string][]cobra.Completion{
	"scene": {
		cobra.CompletionWithDesc("mutex", "one lock, a crash, a late write"),
		cobra.CompletionWithDesc("all", "one after the other"),
		cobra.CompletionWithDesc("slots", demo.AboutSlots),
	},
	"on-loss": {"term", "warn"},
}

// arrangeArguments sets how arguments and the values of flags are completed.
func arrangeArguments(c completer, root *cobra.Command) {
	for _, cmd := range root.Commands() {
		switch {
		case cmd.Name() == "run" || cmd.Name() == "elect":
			cmd.ValidArgsFunction = c.completeRun
		case slices.Contains(named, cmd.Name()):
			cmd.ValidArgsFunction = c.completeNames
		case cmd.ValidArgsFunction == nil:
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		for flag, all := range values { // it fails for a flag that is not there
			complete := cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)
			_ = cmd.RegisterFlagCompletionFunc(flag, complete)
		}
	}
}
