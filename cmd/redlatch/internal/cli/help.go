package cli

import (
	"embed"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

//go:embed help
var helpFiles embed.FS

// helpText returns a file below help.
func helpText(file string) string {
	text, err := helpFiles.ReadFile("help/" + file)
	if err != nil {
		panic(err) // there is no such file
	}
	return string(text)
}

// command returns the command that a file below help describes: how it is used and what it is for, a
// line each, then all about it, and its examples.
func command(name string, args cobra.PositionalArgs, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	use, text, _ := strings.Cut(helpText(name+".txt"), "\n")
	short, text, _ := strings.Cut(text, "\n\n")
	long, examples, _ := strings.Cut(text, "\n\nExamples:\n")
	for _, shared := range []string{"belief.txt", "report.txt"} {
		long = strings.Replace(long, "{"+shared+"}", strings.TrimSpace(helpText(shared)), 1)
	}
	return &cobra.Command{Use: use, Short: short, Long: long, Example: strings.TrimSuffix(examples, "\n"), Args: args, RunE: run}
}

// hidden returns a command that redlatch starts itself.
func hidden(use, short string, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Hidden: true, Args: nothing, RunE: run}
}

// talksToNone is the annotation of commands that talk to no server, or to none that --redis names:
// their help leaves --redis and --prefix out.
const talksToNone = "talks to none"

// ownServer is the annotation of commands that do not read REDLATCH_REDIS: it is what they work on
// without --redis.
const ownServer = "own server"

// arrangeHelp sets what is not cobra's own: the page above, and errors that suggest what was meant.
func arrangeHelp(root *cobra.Command) {
	usual := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd == root {
			fmt.Fprint(cmd.OutOrStdout(), helpText("redlatch.txt"))
			return
		}
		if own := cmd.Annotations[ownServer]; own != "" {
			cmd.Flag("redis").Usage = "`URL` of the server (default: " + own + ")"
		}
		for _, flag := range []string{"redis", "prefix"} {
			if cmd.Annotations[talksToNone] != "" || cmd.Name() == "completion" || cmd.HasParent() && cmd.Parent().Name() == "completion" {
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
					return usagef("`redlatch completion bash`", "completion wants a shell: bash, zsh, fish or powershell")
				}
				return usagef("bash, zsh, fish and powershell are known", "there is no completion for %q", args[0])
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
	return usagef(hint, "there is no command %q", args[0])
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
	return usagef(hint, "%w", err)
}

// valueError returns the error of a value that makes no sense.
func valueError(e *pflag.InvalidValueError) error {
	flag, value := e.GetFlag(), e.GetValue()
	_, noNumber := strconv.ParseFloat(value, 64)
	switch kind := flag.Value.Type(); {
	case kind == "duration" && noNumber == nil:
		return usagef(fmt.Sprintf("--%s %ss?", flag.Name, value), "--%s is %s, which has no unit", flag.Name, value)
	case kind == "duration":
		return usagef("a time is a number with ms, s, m or h, such as 90s or 1h30m", "--%s is %q, which is no time", flag.Name, value)
	case kind == "int":
		return usagef("", "--%s is %q, which is no whole number", flag.Name, value)
	}
	return usagef("", "--%s is %q: %w", flag.Name, value, errors.Unwrap(e))
}

// nearestFlag has cobra compare flags as it compares commands.
func nearestFlag(cmd *cobra.Command, typed string) string {
	flags := &cobra.Command{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return nearest(flags, typed)
}

// oneName wants the name of one lock.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef(fmt.Sprintf("`%s NAME`", cmd.CommandPath()), "%s wants the name of one lock, got %d", cmd.Name(), len(args))
	}
	return nil
}

const hintQuote = "quote the pattern, or the shell replaces it by names of files"

// onePattern wants one pattern of names at most, and calls it what.
func onePattern(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 || len(args) == 1 && args[0] == "":
			return nil
		case len(args) == 1:
			return knownPattern(args[0])
		}
		return usagef(hintQuote, "%s takes one %s, got %d", cmd.Name(), what, len(args))
	}
}

// knownPattern refuses a pattern that makes no sense.
func knownPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return usagef("* any text, ? one character, [a-z] one of these", "pattern %q makes no sense", pattern)
	}
	return nil
}

// nothing wants no arguments.
func nothing(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(fmt.Sprintf("`%s`", cmd.CommandPath()), "%s takes no arguments, got %q", cmd.Name(), args[0])
	}
	return nil
}
