package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
)

// arrangeHelp installs our own help pages, and errors that suggest what the user meant.
func arrangeHelp(root *cobra.Command) {
	usual := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		switch {
		case cmd == root:
			if err := knownCommand(root, root.Flags().Args()); err != nil { // as in redlatch frob --help
				root.OutOrStdout().(*helpWriter).err = err
				return
			}
			fmt.Fprint(cmd.OutOrStdout(), rootPage(root))
		case cmd.Long == "" || cmd.Name() == "completion" || cmd.Parent().Name() == "completion" || cmd.Name() == "help":
			usual(cmd, args) // cobra's own
		default:
			whole := len(args) == 0 // `redlatch help`, and not --help
			fmt.Fprint(cmd.OutOrStdout(), helpPage(cmd, whole))
		}
	})
	for _, cmd := range root.Commands() {
		cmd.SuggestFor = alsoCalled[cmd.Name()]
		switch cmd.Name() {
		case "help":
			cmd.Example = "  redlatch help run"
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if about, _, err := root.Find(args); err == nil && about != root {
					return nil
				}
				return knownCommand(root, args)
			}
		case "completion": // cobra's own prints its help for an unknown shell
			cmd.Args = knownShell
			cmd.RunE = knownShell // cobra checks the Args of runnable commands only
		}
	}
	root.SetFlagErrorFunc(flagError)
}

// helpWriter remembers the error of a page of help, which cobra drops.
type helpWriter struct {
	io.Writer
	err error
}

func (w *helpWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.err = cmp.Or(w.err, err)
	return n, err
}

// rootPage returns the help for the program, without the commands that a small build lacks.
func rootPage(root *cobra.Command) string {
	page := app.HelpText("redlatch.txt")
	for _, name := range big {
		if cmd, _, err := root.Find([]string{name}); err != nil || cmd == root {
			before, line, _ := strings.Cut(page, "  redlatch "+name+" ")
			_, after, _ := strings.Cut(line, "\n")
			page = before + after
		}
	}
	return strings.Replace(page, "Try it:\n\n", "", 1) // demo and dev
}

// columns is the width of a help page, and of the files below app/help.
const columns = 80

// helpPage returns the help for a command, usage first. The whole page also has what does not fit
// on a screen.
func helpPage(cmd *cobra.Command, whole bool) string {
	about, more, _ := strings.Cut(cmd.Long, "\n\n")
	examples, rare, _ := strings.Cut(cmd.Example, "\n\n")
	var b strings.Builder
	section := func(text string) {
		if text != "" {
			b.WriteString(text + "\n")
		}
	}
	section(about + "\n\nUsage:\n  " + cmd.UseLine() + "\n\nExamples:\n" + examples)
	if whole {
		section(rare)
		section("\n" + more)
	}
	cmd.InheritedFlags() // makes cobra tell these from the command's own
	b.WriteString("\nFlags:\n" + cmd.LocalFlags().FlagUsagesWrapped(columns))
	if cmd.Annotations[app.TalksToNone] == "" {
		if own := cmd.Annotations[app.OwnServer]; own != "" {
			cmd.Flag("redis").Usage = "`URL` of the server (default: " + own + ")"
		}
		b.WriteString("\nFlags of all commands:\n" + cmd.InheritedFlags().FlagUsagesWrapped(columns))
	}
	if !whole && more+rare != "" {
		fmt.Fprintf(&b, "\n`redlatch help %s` says all about it.\n", cmd.Name())
	}
	return b.String()
}

// alsoCalled maps each command to other names under which users look for it.
var alsoCalled = map[string][]string{
	"run":     {"exec", "with", "flock"},
	"elect":   {"leader", "election", "campaign"},
	"lock":    {"acquire"},
	"unlock":  {"free"},
	"ls":      {"list", "ps", "status", "locks"},
	"inspect": {"show", "get", "info", "describe", "who"},
	"release": {"force", "steal", "kill", "break", "take", "rm"},
	"log":     {"journal", "history", "events"},
	"doctor":  {"check", "ping", "diagnose"},
	"verify":  {"test"},
	"top":     {"watch", "monitor"},
	"web":     {"dashboard", "ui", "serve"},
	"dev":     {"server", "start"},
}

// flagsAlsoCalled maps names under which users look for a flag to that flag.
var flagsAlsoCalled = map[string]string{
	"addr": "listen", "address": "listen", "port": "listen", "bind": "listen", "http": "listen",
	"url": "redis", "server": "redis", "uri": "redis",
	"timeout": "wait", "wait-timeout": "wait", "max-wait": "wait",
	"nonblock": "try", "no-wait": "try", "nb": "try",
	"lease": "ttl", "expire": "ttl", "expiry": "ttl", "expires": "ttl",
	"read": "shared", "write": "exclusive", "semaphore": "permits", "slots": "slot-pool", "slot": "slot-pool",
	"exit-code": "taken-exit-code", "conflict-exit-code": "taken-exit-code", "output": "json", "format": "json",
	"labels": "label", "tag": "label", "key-prefix": "prefix", "namespace": "prefix",
	"tail": "last", "count": "last", "lines": "last", "limit": "last", "after": "since", "watch": "follow",
	"cert": "tls-cert", "key": "tls-key", "user": "users", "auth": "users", "password": "users",
	"order": "sort", "filter": "search", "name": "pattern", "match": "pattern",
	"time": "duration", "for": "duration", "seconds": "duration", "message": "reason", "why": "reason",
}

// knownShell refuses an argument of the completion command that is not a known shell.
func knownShell(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		const text = "completion needs a shell: bash, zsh, fish or powershell"
		return exit.Usagef("`redlatch completion bash`", text)
	}
	const known = "bash, zsh, fish and powershell are known"
	return exit.Usagef(known, "there is no completion for %q", args[0])
}

// big are the commands that a small build lacks.
var big = []string{"demo", "dev", "verify", "web"}

// knownCommand refuses an argument of the root command that is not the name of a command.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "`redlatch --help` lists the commands"
	if slices.Contains(big, args[0]) {
		hint = "this redlatch was built with -tags redlatch_small, which leaves the command out: install the whole redlatch"
	} else if near := nearest(cmd, args[0]); near != "" {
		hint = fmt.Sprintf("did you mean `redlatch %s`?", near)
	}
	return exit.Usagef(hint, "there is no command %q", args[0])
}

// flagError returns the error for a flag that is unknown, or that lacks its value.
func flagError(cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("`%s --help` lists the flags", cmd.CommandPath())
	var refused *exit.Error // by the value of the flag
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var bare *pflag.ValueRequiredError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &value):
		return valueError(value)
	case errors.As(err, &bare):
		kind, usage := pflag.UnquoteUsage(bare.GetFlag())
		usage = strings.TrimPrefix(usage, kind+": ")
		return exit.Usagef(fmt.Sprintf("--%s %s: %s", bare.GetFlag().Name, kind, usage), "--%s needs a value", bare.GetFlag().Name)
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if group := unknown.GetSpecifiedShortnames(); group != "" { // -ttl is read as -t -t -l
			name = group
		}
		if name == "c" && cmd.Flags().Lookup("grace") != nil {
			hint = fmt.Sprintf("give a line for the shell after the name: `%s NAME -- sh -c 'LINE'`", cmd.CommandPath())
		} else if near := nearestFlag(cmd, name); near != "" {
			hint = fmt.Sprintf("did you mean --%s?", near)
		}
	}
	return exit.Usagef(hint, "%w", err)
}

// valueError returns the error for a value that makes no sense.
func valueError(e *pflag.InvalidValueError) error {
	flag, value := e.GetFlag(), e.GetValue()
	switch kind := flag.Value.Type(); {
	case kind == "duration":
		const units = "a time is a number with ms, s, m or h, such as 90s or 1h30m, up to 292 years"
		return cmp.Or(app.Unitless(flag.Name, value), exit.Usagef(units, "--%s is %q, which is no time", flag.Name, value))
	case kind == "bool":
		return exit.Usagef(fmt.Sprintf("--%s alone, or --%s=false", flag.Name, flag.Name), "--%s is %q, which is neither true nor false", flag.Name, value)
	case kind == "int":
		return exit.Usagef("", "--%s is %q, which is no whole number", flag.Name, value)
	}
	return exit.Usagef("", "--%s is %q: %w", flag.Name, value, errors.Unwrap(e))
}

// nearestFlag returns the flag that the user may have meant, or "". It makes cobra compare flags as
// it compares commands.
func nearestFlag(cmd *cobra.Command, typed string) string {
	if other := flagsAlsoCalled[typed]; cmd.Flags().Lookup(other) != nil {
		return other
	}
	if cmd.Flags().Lookup(typed) != nil { // typed with a single dash
		return typed
	}
	flags := &cobra.Command{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return nearest(flags, typed)
}

// nearest returns the command under cmd whose name is nearest to what was typed, or "".
func nearest(cmd *cobra.Command, typed string) string {
	for cmd.SuggestionsMinimumDistance = 1; cmd.SuggestionsMinimumDistance <= min(2, len(typed)/2); cmd.SuggestionsMinimumDistance++ {
		if near := cmd.SuggestionsFor(typed); len(near) > 0 {
			return near[0]
		}
	}
	return ""
}
