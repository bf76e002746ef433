package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
)

// arrangeHelp sets what is not cobra's own: the page above, and errors that suggest what was meant.
func arrangeHelp(root *cobra.Command) {
	usual := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd == root {
			fmt.Fprint(cmd.OutOrStdout(), app.HelpText("redlatch.txt"))
			return
		}
		if own := cmd.Annotations[app.OwnServer]; own != "" {
			cmd.Flag("redis").Usage = "`URL` of the server (default: " + own + ")"
		}
		for _, flag := range []string{"redis", "prefix"} {
			if cmd.Annotations[app.TalksToNone] != "" || cmd.Name() == "completion" || cmd.HasParent() && cmd.Parent().Name() == "completion" {
				_ = root.PersistentFlags().MarkHidden(flag) // which fails for a flag that is not there
			}
		}
		usual(cmd, args)
	})
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Example = "  redlatch help run"
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if about, _, err := root.Find(args); err == nil && about != root {
					return nil
				}
				return knownCommand(root, args)
			}
		}
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
}

// arrangeCompletion has cobra's command refuse a shell that it does not know, instead of printing
// its help.
func arrangeCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args = func(cmd *cobra.Command, args []string) error {
				if len(args) == 0 {
					return exit.Usagef("`redlatch completion bash`", "completion wants a shell: bash, zsh, fish or powershell")
				}
				return exit.Usagef("bash, zsh, fish and powershell are known", "there is no completion for %q", args[0])
			}
			cmd.RunE = func(*cobra.Command, []string) error { return nil } // what is not runnable never gets to Args
		}
	}
}

// knownCommand refuses what the root command is given when nothing under it has that name.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "`redlatch --help` lists the commands"
	if near := nearest(cmd, args[0]); near != "" {
		hint = fmt.Sprintf("did you mean `redlatch %s`?", near)
	}
	return exit.Usagef(hint, "there is no command %q", args[0])
}

// nearest is the command under cmd whose name is nearest to what was typed, or "".
func nearest(cmd *cobra.Command, typed string) string {
	for cmd.SuggestionsMinimumDistance = 1; cmd.SuggestionsMinimumDistance <= min(2, len(typed)/2); cmd.SuggestionsMinimumDistance++ {
		if near := cmd.SuggestionsFor(typed); len(near) > 0 {
			return near[0]
		}
	}
	return ""
}

func flagError(cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("`%s --help` lists the flags", cmd.CommandPath())
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &value):
		return valueError(value)
	case errors.As(err, &unknown) && unknown.GetSpecifiedName() == "c" && cmd.Flags().Lookup("grace") != nil:
		hint = fmt.Sprintf("give a line for the shell after the name: `%s NAME -- sh -c 'LINE'`", cmd.CommandPath())
	case errors.As(err, &unknown):
		if near := nearestFlag(cmd, unknown.GetSpecifiedName()); near != "" {
			hint = fmt.Sprintf("did you mean --%s?", near)
		}
	}
	return exit.Usagef(hint, "%w", err)
}

// valueError returns the error of a value that makes no sense.
func valueError(e *pflag.InvalidValueError) error {
	flag, value := e.GetFlag(), e.GetValue()
	_, noNumber := strconv.ParseFloat(value, 64)
	switch kind := flag.Value.Type(); {
	case kind == "duration" && noNumber == nil:
		return exit.Usagef(fmt.Sprintf("--%s %ss?", flag.Name, value), "--%s is %s, which has no unit", flag.Name, value)
	case kind == "duration":
		return exit.Usagef("a time is a number with ms, s, m or h, such as 90s or 1h30m", "--%s is %q, which is no time", flag.Name, value)
	case kind == "int":
		return exit.Usagef("", "--%s is %q, which is no whole number", flag.Name, value)
	}
	return exit.Usagef("", "--%s is %q: %w", flag.Name, value, errors.Unwrap(e))
}

// nearestFlag has cobra compare flags as it compares commands.
func nearestFlag(cmd *cobra.Command, typed string) string {
	flags := &cobra.Command{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return nearest(flags, typed)
}
