package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/report"
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

// complete completes the name of a lock. For run and elect it also completes the two dashes after
// the name. What follows them is a command, which the shell itself completes.
func (c completer) complete(
	cmd *cobra.Command, args []string, begun string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	runs := cmd.Name() == "run" || cmd.Name() == "elect"
	switch {
	// Cobra adds a "--" itself, so ArgsLenAtDash does not say whether the user typed it.
	case runs && slices.Contains(c.typed[:len(c.typed)-1], "--"):
		return nil, cobra.ShellCompDirectiveDefault
	case len(args) == 0 && !cmd.Flags().Changed("adopt"):
		all = c.names(cmd.Context(), begun)
	case runs && len(args) <= 1 && strings.HasPrefix("--", begun):
		all = append(all, cobra.CompletionWithDesc("--", "the command follows"))
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// names returns the names in use that begin with begun, and their holders, as far as Redis lists
// them within [completionTime].
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
		// A shell must not insert a name that needs quotes, or that the command reads as a flag.
		if fleet.ShellWord(info.Name) == info.Name && !strings.HasPrefix(info.Name, "-") {
			all = append(all, cobra.CompletionWithDesc(info.Name, report.Summary(info)))
		}
	}
	slices.Sort(all)
	return all
}

// arrangeArguments sets how arguments and the values of flags are completed.
func arrangeArguments(c completer, root *cobra.Command) {
	for _, cmd := range root.Commands() {
		switch {
		case slices.Contains(named, cmd.Name()):
			cmd.ValidArgsFunction = c.complete
		case cmd.ValidArgsFunction == nil:
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) { c.arrange(cmd, f) })
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) { c.arrange(root, f) })
}

// arrange stops the shell from completing file names for a flag that takes none.
func (c completer) arrange(cmd *cobra.Command, f *pflag.Flag) {
	if kind, _ := pflag.UnquoteUsage(f); kind != "FILE" && kind != "directory" {
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.NoFileCompletions) // which fails if the command offers values
	}
	if len(c.typed) > 0 && strings.HasPrefix(c.typed[0], cobra.ShellCompRequestCmd) {
		f.Usage = strings.ReplaceAll(f.Usage, "`", "") // a shell shows it as it is
	}
}
