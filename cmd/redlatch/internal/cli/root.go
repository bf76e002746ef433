// Package cli is the program redlatch, as a value that tests can start: the tree of its commands,
// their help and completion, and how it ends.
//
// Of these packages, each imports only those to its left:
//
//	exit   talk          app           hold           cli
//	       report                      look
//	                                   try
//
// exit has the exit codes, talk what is printed, and report what is printed of locks. app has what
// commands share. The commands are in hold (run, elect, lock, unlock), look (ls, inspect, release,
// log, doctor, top, web) and try (demo, dev, verify), each in the file of its name.
package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/hold"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/look"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
)

// Main runs the program with these arguments, which leave its own name out, and returns its exit
// code. The commands that `redlatch run` starts get the same streams.
//
// Main itself handles no signals. A command that has something to clean up handles them for as long
// as it does.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := newApp(stdin, stdout, stderr)
	root, started := newRootCommand(a, args)
	root.SetArgs(args)
	help := &helpWriter{Writer: stdout}
	root.SetOut(help)
	cmd, err := root.ExecuteContextC(ctx)
	code := 0
	if err = cmp.Or(err, help.err); err != nil {
		e := exit.Of(err)
		if !*started && e.Code == exit.Failed && help.err == nil {
			e = exit.New(exit.Usage, err, "see `redlatch --help`") // cobra's own complaints
		}
		explain(a, e, cmd)
		a.Fail(e)
		code = e.Code
	}
	a.Flush()
	return code
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app.App {
	return &app.App{Streams: &talk.Streams{Stdin: stdin, Stdout: stdout, Stderr: stderr}, Version: version()}
}

// explain adds to an error what was asked of which server, and a hint.
func explain(a *app.App, e *exit.Error, cmd *cobra.Command) {
	if e.Hint == "" {
		e.Hint = a.Advice(e.Err, a.URLs())
	}
	if e.Err == nil {
		return
	}
	if before, after, found := strings.Cut(talk.Text(e.Err), "the Redis URL cannot"); found {
		_, from, _ := a.Servers()
		e.Err = fmt.Errorf("%sthe Redis URL in %s cannot%s", before, cmp.Or(from, "--redis"), after)
	}
	if e.Code != exit.Unreachable {
		return
	}
	asked := cmd.Name()
	if name := cmp.Or(a.Adopted, cmd.Flags().Arg(0)); slices.Contains(named, asked) && name != "" {
		asked += fmt.Sprintf(" %q", name)
	}
	e.Err = fmt.Errorf("%s, on %s: %s", asked, a.Where(), talk.Unconnected(e.Err))
}

// named lists the commands that take the name of a lock, or a pattern, as their first argument,
// unless the text of a lease has the name.
var named = []string{"run", "elect", "lock", "unlock", "inspect", "release", "ls", "log"}

// newRootCommand returns the tree of commands. *started becomes true when the command line made
// sense and a command begins.
func newRootCommand(a *app.App, typed []string) (root *cobra.Command, started *bool) {
	started = new(bool)
	told := false // --version. If the command had a Version, cobra would link templates: 9 MB
	root = &cobra.Command{
		Use:   "redlatch",
		Short: "Locks on Redis that are fair, fenced and fast",
		Args:  knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if told {
				return a.Answer("%s\n", a.Version)
			}
			if cmd.Flags().NFlag() > 0 { // as in redlatch --redis ls
				return exit.Usagef("`redlatch --help` lists the commands", "no command given, only flags")
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			*started = true
			return app.CheckBounds(cmd.Flags())
		},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.Flags().BoolVarP(&told, "version", "v", false, "version for redlatch")
	flags := root.PersistentFlags()
	flags.StringArrayVar(&a.Redis, "redis", nil, "`URL` of the server; `redlatch --help` says more")
	flags.StringVar(&a.Prefix, "prefix", app.DefaultPrefix, "what begins every key in Redis")
	root.AddCommand(hold.Commands(a)...)
	root.AddCommand(look.Commands(a)...)
	root.AddCommand(bigCommands(a)...)
	root.AddCommand(newVersionCommand(a))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	arrangeHelp(root)
	arrangeArguments(completer{a, typed}, root)
	return root, started
}

// Commands returns the tree of the program's commands, for its manual and its completions.
func Commands() *cobra.Command {
	root, _ := newRootCommand(newApp(nil, io.Discard, io.Discard), nil)
	root.Long = app.HelpText("redlatch.txt")
	return root
}
