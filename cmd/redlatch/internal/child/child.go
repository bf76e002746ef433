// Package child runs one command in its own process group, so that it can be stopped with
// everything it started, and keeps it from outliving the program, however the program ends.
//
// Three things ensure the latter on Unix:
//
//   - The program calls [Child.Terminate] and [Child.Kill], which reach the whole group.
//   - On Linux the kernel kills the command itself when the program dies.
//   - A guard, a second process of the same executable, kills the whole group when the program is
//     gone, or when the last deadline that the program gave has passed. It does so even if the
//     program is stopped at that time.
//
// A process that leaves the group, as a daemon does, is out of reach of all three. On Windows there
// are neither groups nor a guard: only the command itself is stopped.
//
// If the program is the first process of a container, the command's orphans become the program's
// children. While the command runs, the program reaps orphans that end.
package child

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"time"
)

// GuardArg is the argument that starts the executable as a guard, which calls [Guard].
const GuardArg = "guard"

// ErrGuard says that the guard could not be started, and so the command was not.
var ErrGuard = errors.New("cannot start the process that guards the command")

// Status says how a command ended.
type Status struct {
	Code   int       // its exit code, or 128 + the number of the signal that killed it
	Signal os.Signal // the signal that killed it, or nil
}

// Child is a command that was started. Its methods are for one goroutine.
type Child struct {
	cmd      *exec.Cmd
	guard    *guard
	terminal *terminal
	group    int // its process group
	status   Status
	overdue  bool
	exited   chan struct{}
	stopped  chan struct{}
	orphans  func()       // stops reaping them
	asleep   atomic.Int32 // the signal that stopped it, or 0
	looked   time.Time    // when Gone last looked at each process
}

// Start starts the command, guarded until the deadline. If its standard input is an *os.File, the
// command gets that file, and with it the terminal. The guard returns the will once the program,
// and then the command with its group, are gone. If the command cannot be started, nothing is left
// running. The caller must call Close.
func Start(cmd *exec.Cmd, will string, deadline time.Time) (*Child, error) {
	g, err := startGuard(cmd.Stderr, will)
	if err != nil {
		return nil, errors.Join(ErrGuard, err)
	}
	child := &Child{
		cmd:     cmd,
		guard:   g,
		exited:  make(chan struct{}),
		stopped: make(chan struct{}, 1),
	}
	cmd.WaitDelay = time.Second // for pipes left to its children; files need no copy and no delay
	if err := child.start(); err != nil {
		g.dismiss()
		return nil, err
	}
	child.Expect(deadline)
	child.orphans = adoptOrphans(child.PID())
	return child, nil
}

// PID returns the process id of the command.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Exited returns a channel that closes when the command ends. Others of its group may run on.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Status returns how the command ended. It is valid once Exited is closed.
func (c *Child) Status() Status { return c.status }

// Stopped returns a channel that receives a value when a signal has suspended the command. It stays
// suspended until Resume or another process continues it.
func (c *Child) Stopped() <-chan struct{} { return c.stopped }

// Expect tells the guard how long the command may run.
func (c *Child) Expect(deadline time.Time) { c.guard.expect(c.group, deadline) }

// Close takes the terminal back and ends the guard. Processes of the group that are left then run
// unguarded.
func (c *Child) Close() {
	c.orphans()
	c.terminal.close()
	c.overdue = c.guard.dismiss()
}

// Overdue reports whether the guard killed the command because the deadline had passed and the
// program did not act. It is valid after Close.
func (c *Child) Overdue() bool { return c.overdue && c.status.Signal == os.Kill }

// Notify catches signals, until stop is called. The program should pass them to [Child.Forward]. A
// SIGHUP or SIGINT that was ignored when the program started, as under nohup, stays ignored; of
// others, Go does not tell.
func Notify() (signals <-chan os.Signal, stop func()) {
	wanted := make(chan os.Signal, 16)
	catch(wanted, forwarded())
	return wanted, func() { signal.Stop(wanted) }
}

// GoOn makes the program survive writes to a closed pipe, and ignore Ctrl-Z, from now on. A last
// message that cannot be written must not change the exit code.
func GoOn() {
	catch(make(chan os.Signal, 1), dropped()) // not signal.Ignore: a command inherits that
}

func catch(c chan<- os.Signal, signals []os.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}
