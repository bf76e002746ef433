// Package cli is the program redlatch, as a value that tests can start.
package cli

import (
	"cmp"
	"context"
	"io"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
)

const (
	defaultRedis  = "redis://127.0.0.1:6379"
	defaultPrefix = "redlatch:"
)

// app is one run of the program: the streams it talks on and the flags that its commands share.
// Commands print through the methods in print.go alone.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer

	typed   []string    // the arguments
	talk    io.Writer   // where say writes: stderr, or the backlog in front of it
	flush   func()      // the backlog
	redis   []string    // --redis, or none; see urls
	prefix  string      // --prefix
	events  bool        // talk is events, one JSON object a line
	quiet   bool        // no talk of a lock that is taken; see chat
	dated   atomic.Bool // talk has the time: the command has begun to wait or to hold
	started bool        // the command line made sense and a command has begun
}

// Main runs the program with these arguments, which leave its own name out, and returns its exit
// code. The streams become those of the commands that `redlatch run` starts.
//
// Main itself handles no signals: a command that has something to put in order does, for as long as
// it has.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr, talk: stderr, flush: func() {}}
	root := newRootCommand(a)
	root.SetArgs(args)
	a.typed = args
	code := a.finish(root.ExecuteContext(ctx))
	a.flush()
	return code
}

// finish says what went wrong, if anything did, and returns the exit code.
func (a *app) finish(err error) int {
	if err == nil {
		return 0
	}
	f := asFailure(err)
	if !a.started && f.code == exitFailure {
		f = &failure{exitUsage, err, "see `redlatch --help`"} // cobra's own complaints
	}
	if f.hint == "" && f.code == exitUnreachable {
		f.hint = advice(f.err, a.urls())
	}
	a.fail(f)
	return f.code
}

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:              "redlatch",
		Short:            "Locks on Redis that are fair, fenced and fast",
		Version:          version(),
		Args:             knownCommand,
		RunE:             func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRun: func(*cobra.Command, []string) { a.started = true },
		SilenceErrors:    true,
		SilenceUsage:     true,
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	flags := root.PersistentFlags()
	flags.StringArrayVar(&a.redis, "redis", nil, "`URL` of the server (default REDLATCH_REDIS, REDLATCH_REDIS_FILE, REDIS_URL or "+defaultRedis+"); several are a quorum")
	flags.StringVar(&a.prefix, "prefix", defaultPrefix, "what begins every key in Redis; all who share a lock must agree on it")
	root.AddCommand(
		newRunCommand(a),
		newElectCommand(a),
		newLockCommand(a),
		newUnlockCommand(a),
		newListCommand(a),
		newInspectCommand(a),
		newReleaseCommand(a),
		newLogCommand(a),
		newDoctorCommand(a),
		newVerifyCommand(a),
		newTopCommand(a),
		newWebCommand(a),
		newDemoCommand(a),
		newDevCommand(a),
		newVersionCommand(a),
		newGuardCommand(a),
		newVerifyWorkerCommand(a),
		newVerifyGuardCommand(a),
	)
	arrangeHelp(root)
	arrangeArguments(a, root)
	arrangeCompletion(root)
	return root
}

// Commands returns the tree of the program's commands, for its manual and its completions.
func Commands() *cobra.Command {
	root := newRootCommand(&app{stdout: io.Discard, stderr: io.Discard, talk: io.Discard, flush: func() {}})
	root.Long = helpText("redlatch.txt")
	return root
}

// untilSignal returns a context that ends with INT or TERM.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
}

// connect opens a client, has it used, and closes it.
func (a *app) connect(ctx context.Context, o redlatch.Options, use func(*redlatch.Client) error) error {
	client, err := a.open(ctx, o)
	if err != nil {
		return err
	}
	defer client.Close()
	return use(client)
}

// open connects to the server, or the quorum, with the prefix of the command line. The caller
// closes the client.
func (a *app) open(ctx context.Context, o redlatch.Options) (*redlatch.Client, error) {
	o.Prefix = cmp.Or(a.prefix, redlatch.NoPrefix)
	urls, err := a.servers()
	if err != nil {
		return nil, err
	}
	a.warnOfPassword()
	if len(urls) > 1 {
		return redlatch.OpenQuorum(ctx, urls, o)
	}
	return redlatch.Open(ctx, urls[0], o)
}
