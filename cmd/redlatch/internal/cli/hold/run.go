package hold

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/child"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/report"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/window"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/fleet"
)

// run is one `redlatch run`.
type run struct {
	app    *app.App
	verb   string // "run" or "elect"
	target target
	name   string
	argv   []string
	lock   redlatch.LockOptions
	taken  int // the exit code
	grace  time.Duration
	labels []string // KEY=VALUE each

	keepPassword bool
	onLoss       string // term or warn
	again        bool   // elect: stand again after a loss
	loud         func() // ends QuitQuietly

	waits   chan struct{}          // receives a value when it is in line, or an outage begins or ends
	owner   atomic.Pointer[string] // the last one that waited in line
	trouble atomic.Pointer[error]  // why the last extend failed
	cutOff  bool                   // Redis did not answer the release
	ending  bool                   // the command has ended by itself, or was sent a signal whose sender means it to end
}

func newRunCommand(a *app.App) *cobra.Command {
	r := &run{app: a, verb: "run", waits: make(chan struct{}, 1)}
	cmd := app.Command("run", func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("adopt") && strings.TrimSpace(r.target.adopted) == "" {
			return exit.Usagef(emptyText, "--adopt needs the text that `redlatch lock` printed, and got an empty one")
		}
		return r.parse(args, cmd.ArgsLenAtDash())
	}, func(cmd *cobra.Command, _ []string) error { return r.checked(cmd) })
	r.flags(cmd.Flags())
	r.target.flags(cmd.Flags())
	app.Offer(cmd, "on-loss", "term", "warn")
	cmd.Flags().StringVar(&r.target.adopted, "adopt", "", "go on with the lease that `TEXT` names")
	return cmd
}

// checked runs the command if the command line makes sense.
func (r *run) checked(cmd *cobra.Command) error {
	child.GoOn()
	if err := r.check(cmd.Flags()); err != nil {
		return err
	}
	if r.target.adopted != "" {
		var err error
		if r.target.adopted, err = leaseText(r.app, r.target.adopted); err != nil {
			return err
		}
		r.name = r.app.Adopted
	}
	if r.target.once && !cmd.Flags().Changed("taken-exit-code") {
		r.taken = 0 // a run that is skipped is no failure
	}
	r.hush()
	return r.run(cmd.Context())
}

// hush makes the command silent about a lock that is taken, if the exit code for that is 0: cron
// mails every line that is printed.
func (r *run) hush() { r.app.Quiet = r.app.Quiet || r.taken == 0 }

// flags adds the flags of the commands that hold a lock while another command runs.
func (r *run) flags(flags *pflag.FlagSet) {
	a := r.app
	r.acquireFlags(flags)
	flags.DurationVar(&r.lock.MaxHold, "max-hold", 0, "stop the command after holding the lock this long")
	flags.DurationVar(&r.lock.MinHold, "min-hold", 0, "how long the lock stays closed at least")
	flags.DurationVar(&r.grace, "grace", 0, "from TERM to KILL (default --ttl/6, at most 5s)")
	app.AtLeast(flags, "max-hold", &r.lock.MaxHold, time.Millisecond)
	app.Between(flags, "min-hold", &r.lock.MinHold, time.Millisecond, app.MaxTTL)
	app.AtLeast(flags, "grace", &r.grace, 0)
	flags.StringVar(&r.onLoss, "on-loss", "term", "if the lease is lost: term or warn")
	flags.BoolVar(&r.keepPassword, "keep-password", false, "leave the password in "+app.RedisVariable)
	flags.BoolVar(&a.Events, "json", false, "print events as JSON lines")
}

// acquireFlags adds the flags of the commands that acquire a lock.
func (r *run) acquireFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&r.lock.TTL, "ttl", 30*time.Second, "how long the lock outlives a crash")
	flags.DurationVar(&r.lock.MaxWait, "wait", 0, "maximum time to wait")
	flags.BoolVar(&r.target.try, "try", false, "give up at once if it is taken (or --wait 0)")
	flags.IntVar(&r.lock.MaxWaiters, "max-waiters", 0, "give up at once if `N` others wait already")
	flags.StringArrayVar(&r.labels, "label", nil, "shown by inspect, ls and log; up to 8 `KEY=VALUE`")
	flags.IntVarP(&r.taken, "taken-exit-code", "E", exit.Taken, "exit code `N` if the lock is taken")
	app.Between(flags, "ttl", &r.lock.TTL, app.MinTTL, app.MaxTTL)
	app.AtLeast(flags, "wait", &r.lock.MaxWait, 0)
	app.Between(flags, "max-waiters", &r.lock.MaxWaiters, 1, 1000) // which the library allows
	app.Between(flags, "taken-exit-code", &r.taken, 0, 255)
	flags.BoolVarP(&r.app.Quiet, "quiet", "q", false, "don't report that the lock is taken")
}

// parse reads the arguments. dash says how many came before the "--", and is -1 if there was none.
func (r *run) parse(args []string, dash int) error {
	hint := fmt.Sprintf("`redlatch %s NAME -- COMMAND [ARG...]`", r.verb)
	if r.target.adopted == "" && dash == 0 && len(args) > 1 && args[1] == "--" { // else the name could be read as a flag
		args, dash = slices.Delete(args, 1, 2), 1
	}
	switch {
	case r.target.adopted != "" && (dash != 0 || len(args) == 0):
		return exit.Usagef("`redlatch run --adopt TEXT -- COMMAND [ARG...]`", "run --adopt needs -- and a command, but no name, which is in the text")
	case r.target.adopted != "":
		r.argv = args
		return nil
	case len(args) == 0 || dash == 0:
		return exit.Usagef(hint, "%s needs a lock name", r.verb)
	case len(args) == 1:
		return exit.Usagef(hint, "%s needs a command to run while it holds %q", r.verb, args[0])
	case dash == -1:
		return exit.Usagef(hint, "%s needs -- between the name and the command", r.verb)
	case dash > 1:
		return exit.Usagef(hint, "%s needs one name before the --, got %d", r.verb, dash)
	}
	r.name, r.argv = args[0], args[1:]
	return nil
}

// check sets defaults, and refuses flags that make no sense.
func (r *run) check(typed *pflag.FlagSet) error {
	if !typed.Changed("grace") {
		r.grace = min(r.lock.TTL/6, 5*time.Second)
	}
	lock := r.lock
	err := app.Refuse(typed, clashes...)
	unlabelled := slices.IndexFunc(r.labels, func(label string) bool { return strings.Index(label, "=") < 1 })
	switch {
	case err != nil:
		return err
	case unlabelled >= 0:
		return exit.Usagef("`--label team=web`", "--label is %q: it must be KEY=VALUE", r.labels[unlabelled])
	case r.app.Quiet && r.app.Events:
		return exit.Usagef("", "--quiet and --json contradict each other")
	case lock.MaxWaiters > 0 && typed.Changed("wait") && lock.MaxWait == 0:
		return exit.Usagef("", "--try never waits, so it does not go with --max-waiters")
	case typed.Changed("on-loss") && r.onLoss != "term" && r.onLoss != "warn":
		return exit.Usagef("", "--on-loss is %q: it must be term or warn", r.onLoss)
	case r.onLoss == "warn" && typed.Changed("max-hold"):
		return exit.Usagef("", "--max-hold stops the command, so it does not go with --on-loss warn")
	// The lease is extended when a third of its TTL has passed. The time between that and the grace
	// is for retries.
	case r.grace > lock.TTL/3:
		return exit.Usagef("raise --ttl",
			"--grace is %v: it must fit into a third of --ttl, which is %v", r.grace, (lock.TTL / 3).Truncate(time.Millisecond))
	}
	r.target.try = r.target.try || typed.Changed("wait") && lock.MaxWait == 0
	return r.target.check(typed)
}

func (r *run) run(ctx context.Context) error {
	// This comes first, so that the run does not wait in line for a command that does not exist.
	path, err := findCommand(r.argv[0])
	if err != nil {
		if r.target.adopted != "" {
			err.Hint = "the text was not used: `redlatch unlock TEXT` releases its lease, which else lasts until its TTL has passed"
		}
		return err
	}
	r.app.InBackground()
	r.loud = child.QuitQuietly()
	client, failed := r.app.Open(ctx, r.options("redlatch "+r.verb+" "+filepath.Base(path)))
	if failed != nil {
		return failed
	}
	defer func() {
		if !r.cutOff { // else Redis cannot be told, and trying would only delay the exit
			_ = client.Close() // what it leaves behind expires
		}
	}()
	signals, stop := child.Notify()
	r.loud()
	defer stop()
	for {
		err := r.turn(ctx, client, path, signals)
		e := exit.Of(err)
		// A command may exit with one of these codes, too; e.Err is nil then.
		passing := e.Err != nil && (e.Code == exit.Lost || e.Code == exit.Unreachable)
		if !r.again || r.ending || !passing {
			return err
		}
		r.cutOff = false
		again := talk.Event{Event: "again", Name: r.name, Error: talk.Text(e.Err)}
		r.app.Tell(again, "%s; standing again", talk.InWords(e))
		select {
		case sig := <-signals:
			return exit.New(128+int(sig.(syscall.Signal)), fmt.Errorf("gave up %q: signal: %v", r.name, sig), "")
		case <-time.After(restPause):
		}
	}
}

// turn acquires the lock once, and runs the command under it.
func (r *run) turn(ctx context.Context, client *redlatch.Client, path string, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h, err := r.acquire(ctx, cancel, client, signals)
	if err != nil {
		return exit.LostOr(err)
	}
	return r.hold(h, path, signals)
}

// restPause is how long a candidate rests before it stands again.
const restPause = time.Second

// options returns the options of a client that acquires the lock.
func (r *run) options(program string) redlatch.Options {
	return redlatch.Options{
		Lock:           r.lock,
		RequestTimeout: min(r.lock.TTL, 3*time.Second),
		Program:        program,
		Hook:           r.hear,
		Labels:         labelled(r.labels),
		Journal:        r.app.Noting(),
	}
}

// labelled returns the labels by key. What follows the first = is the value.
func labelled(labels []string) map[string]string {
	all := make(map[string]string)
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		all[key] = value
	}
	return all
}

// findCommand returns the file that a shell would run.
func findCommand(name string) (string, *exit.Error) {
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, exec.ErrDot):
		return "", exit.New(exit.NotFound, fmt.Errorf("command %q is in the current directory", name), "type ."+string(filepath.Separator)+name)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		hint := ""
		if strings.ContainsAny(name, " \t\n") {
			hint = "a line for the shell goes behind sh -c: `-- sh -c 'LINE'`"
		}
		return "", exit.New(exit.NotFound, fmt.Errorf("command %q was not found", name), hint)
	}
	return "", cannotRun(name, err)
}

func cannotRun(name string, err error) *exit.Error {
	if cause := errors.Unwrap(err); cause != nil {
		err = cause // our own text has the name
	}
	hint := ""
	if errors.Is(err, fs.ErrNotExist) { // which findCommand has ruled out
		hint = "the file is there: look at the program that its first line names, and for a carriage return at its end"
	}
	return exit.New(exit.CannotRun, fmt.Errorf("command %q cannot be started: %w", name, err), hint)
}

// hear handles the events of the client. It must not block.
func (r *run) hear(_ context.Context, e redlatch.Event) {
	if e.Type != redlatch.EventUnreachable && e.Type != redlatch.EventReachable { // acquire reports an outage
		r.app.Emit(talk.LeaseEvent(e))
	}
	switch e.Type {
	case redlatch.EventWait, redlatch.EventUnreachable, redlatch.EventReachable:
		if e.Type == redlatch.EventWait {
			r.owner.Store(&e.Owner)
		}
		select {
		case r.waits <- struct{}{}:
		default:
		}
	case redlatch.EventExtended:
		r.trouble.Store(nil)
	case redlatch.EventExtendFailed:
		r.trouble.Store(&e.Err)
	case redlatch.EventJeopardy:
		if !r.app.Events {
			r.app.Say("the lease on %q cannot be extended and ends in %s: %s", e.Name, fleet.Span(e.Remaining), talk.Text(e.Err))
		}
	}
}

// acquire acquires the lock as the flags say. On a signal, it cancels the wait.
func (r *run) acquire(ctx context.Context, cancel func(), client *redlatch.Client, signals <-chan os.Signal) (*held, error) {
	var h *held
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		h, err = r.target.take(redlatch.WithHeld(ctx, app.Inherited()...), client, r.name)
	}()
	v := vigil{run: r, client: client, began: time.Now(), seen: make(chan sight, 1)}
	looking, stop := context.WithCancel(ctx)
	defer stop()
	giveUp := func(err error) (*held, error) {
		cancel()
		<-done
		if h != nil {
			_ = h.release(ctx) // if this fails, the lease expires
		}
		return nil, err
	}
	for {
		select {
		case <-done:
			switch over := fault.WaitOver(0); {
			case errors.Is(err, redlatch.ErrTaken), errors.Is(err, window.ErrSkipped):
				err = r.whoTook(ctx, client, err)
			case errors.As(err, &over) && !errors.Is(err, redlatch.ErrUnreachable): // it came too late
				err = exit.New(r.taken, err, "")
			}
			return h, err
		case <-r.waits:
			r.app.Date()
			v.look(looking)
		case <-v.due:
			v.look(looking)
		case s := <-v.seen:
			if err := v.tell(s); err != nil {
				return giveUp(err)
			}
		case sig := <-signals:
			return giveUp(exit.New(128+int(sig.(syscall.Signal)), fmt.Errorf("gave up waiting for %q: signal: %v", r.name, sig), ""))
		}
	}
}

// whoTook returns the error for a lock that was not acquired. It names the holder.
func (r *run) whoTook(ctx context.Context, client *redlatch.Client, err error) error {
	f := exit.New(r.taken, err, fmt.Sprintf("`%s` shows the whole line", r.app.AgainOn(r.name, "inspect")))
	if r.app.Quiet && !r.app.Events {
		return exit.Silent(r.taken)
	}
	info, e := inspectBriefly(ctx, client, r.name)
	switch {
	case errors.Is(e, redlatch.ErrUnreachable): // Redis answered before: port and TLS are right
		f.Err = fmt.Errorf("%q was still taken when Redis last answered; now it does not: %s", r.name, talk.Text(e))
		f.Hint = "look whether the server is up, and the network"
	case e != nil:
	case r.target.once:
		f.Err, f.Hint = fmt.Errorf("%q is skipped: %s", r.name, lastRun(info, len(r.app.URLs()) == 1)), ""
	case errors.Is(err, redlatch.ErrLineFull):
		f.Err = fmt.Errorf("%q is taken, and --max-waiters %d allows no more in line: %s",
			r.name, r.lock.MaxWaiters, report.Summary(info))
	case r.target.try:
		f.Err = fmt.Errorf("%q is taken: %s", r.name, report.Summary(info))
	default:
		f.Err = fmt.Errorf("%q is still taken after waiting %s: %s",
			r.name, fleet.Span(r.lock.MaxWait), report.Summary(info))
	}
	return f
}

// lastRun says what keeps a run of a job from starting. alone is false for a quorum.
func lastRun(info redlatch.LockInfo, alone bool) string {
	if len(info.Holders) != 1 || !info.Holders[0].Resting {
		return report.Summary(info)
	}
	began := ""
	if alone { // else the token is a number and not a time
		began = "the last run began at " + time.UnixMicro(info.Token).Format(time.DateTime) + "; "
	}
	return fmt.Sprintf("%sthe next may start in %s", began, fleet.Span(info.Holders[0].Remaining))
}

// hold runs the command under the lease and releases it.
func (r *run) hold(h *held, path string, signals <-chan os.Signal) error {
	lease, ctx := h.Lease, h.Context()
	r.app.Date()
	// A lease granted to a waiter in line has less than its full TTL left. The command must begin
	// with enough of it, or the keeper would stop it at once.
	if err := lease.Ensure(ctx, r.lock.TTL/2); err != nil {
		_ = h.release(ctx) // if this fails, the lease expires
		if errors.Is(err, redlatch.ErrNotHeld) {
			return exit.New(exit.Lost, err, "the command was not started")
		}
		return err
	}
	warn, deadline := r.onLoss == "warn", lease.Deadline()
	if warn {
		deadline = time.Now().Add(forever)
	}
	c, err := child.Start(r.command(h, path), r.will(h), deadline)
	if err != nil {
		_ = h.release(ctx) // if this fails, the lease expires
		if errors.Is(err, child.ErrGuard) {
			return exit.New(exit.System, err, "")
		}
		return cannotRun(r.argv[0], err)
	}
	r.app.Emit(talk.Event{Event: "start", Name: r.name, PID: c.PID(), Command: r.argv})
	k := keeper{run: r, lease: lease, child: c, signals: signals, began: time.Now(), warn: warn}
	status, cause := k.keep()
	c.Close()
	if c.Overdue() {
		k.stopped, k.told = true, false
		// cause is nil if Redis had extended the lease, but its answer came while this program was
		// stopped.
		stood := fmt.Errorf("redlatch was suspended until the lease on %q had, as far as it knew, run out", r.name)
		cause = cmp.Or(cause, stood)
	}
	ended := talk.Event{Event: "exit", Name: r.name, Code: &status.Code}
	if status.Signal != nil {
		ended.Signal = status.Signal.String()
	}
	r.app.Emit(ended)
	err = h.release(ctx)
	r.cutOff = errors.Is(err, redlatch.ErrUnreachable)
	return r.outcome(status, cause, &k, err)
}

func (r *run) command(lease *held, path string) *exec.Cmd {
	env := append(environment(r.keepPassword),
		"REDLATCH_NAME="+lease.Name(),
		"REDLATCH_TOKEN="+strconv.FormatInt(lease.Token(), 10),
		"REDLATCH_OWNER="+lease.Owner(),
		app.HandDown(lease.Lease),
		"REDLATCH_DEADLINE_MS="+strconv.FormatInt(lease.Deadline().UnixMilli(), 10))
	if lease.slot != nil {
		env = append(env, "REDLATCH_SLOT="+strconv.Itoa(*lease.slot))
	}
	return &exec.Cmd{
		Path: path, Args: r.argv, Stdin: r.app.Stdin, Stdout: r.app.Stdout, Stderr: r.app.Stderr,
		Env: env,
	}
}

// outcome returns how the program ends: as the command did, unless the keeper or the release found
// that the lease was lost.
func (r *run) outcome(status child.Status, cause error, k *keeper, release error) error {
	if cause == nil && errors.Is(release, redlatch.ErrNotHeld) {
		cause = release
	}
	switch {
	case k.stopped:
		end := "was stopped"
		if k.partly {
			end = "could not be stopped as a whole"
		}
		e := exit.New(exit.Lost, fmt.Errorf("%w; the command %s", cause, end), "")
		if k.told {
			e.Left = fmt.Sprintf("the command %s, and ended with exit code %d", end, status.Code)
		}
		return e
	case cause != nil && k.warned:
		err := fmt.Errorf("%w; the command went on, and ended with exit code %d", cause, status.Code)
		e := exit.New(exit.Lost, err, hintOverlap)
		e.Left = fmt.Sprintf("the command ended with exit code %d, after its lock was lost", status.Code)
		r.ending = true
		return e
	case cause != nil:
		r.ending = true
		err := fmt.Errorf("%w; the command had already ended, with exit code %d", cause, status.Code)
		return exit.New(exit.Lost, err, hintOverlap)
	case release != nil:
		r.app.Say("%s; the lock is free when its TTL has passed", talk.Text(release))
	}
	if status.Code != 0 {
		return exit.Silent(status.Code)
	}
	return nil
}

// environment returns the environment of the command. Unless keepPassword is set, REDLATCH_REDIS
// has no password in it, but still names the server.
func environment(keepPassword bool) []string {
	var env []string
	for _, variable := range os.Environ() {
		value, ours := strings.CutPrefix(variable, app.RedisVariable+"=")
		if ours && !keepPassword {
			urls := strings.Fields(value)
			for i, url := range urls {
				if talk.Secret(url) {
					urls[i] = talk.Bare(url)
				}
			}
			variable = fmt.Sprintf("%s=%s", app.RedisVariable, strings.Join(urls, " "))
		}
		env = append(env, variable)
	}
	return env
}

const hintOverlap = "another holder may have run at the same time"

// will returns the will of this run. It names no lock that must expire instead: a job's window or a
// minimum hold would end too early, and the kind of an adopted lease is unknown here.
func (r *run) will(h *held) string {
	w := will{Events: r.app.Events}
	if !r.target.once && r.lock.MinHold == 0 && r.target.adopted == "" {
		w.URLs, w.Prefix, w.Name, w.Owner = r.app.URLs(), r.app.Prefix, h.Name(), h.Owner()
	}
	text, _ := json.Marshal(w) // plain fields
	return string(text)
}
