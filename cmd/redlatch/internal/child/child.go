// Package child runs one command in a process group of its own, so that it can be stopped with
// everything it started, and makes sure that it does not outlive the program, however that ends.
//
// Three things see to the latter on Unix:
//
//   - The program calls [Child.Terminate] and [Child.Kill], which reach the whole group.
//   - On Linux the kernel kills the command itself when the program dies.
//   - A guard, a second process of the same executable, kills the whole group when the program is
//     gone or when the deadline that it was last told has passed, even if the program is stopped at
//     that time.
//
// What leaves the process group, as a daemon does, is out of reach of all three. On Windows there
// are neither groups nor a guard: only the command itself is stopped.
//
// In a container whose first process is the program, the orphans that the command leaves become
// children of the program. While the command runs, they are reaped when they end.
package child

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"sync/atomic"
	"time"
)

// GuardArg is the argument with which the executable is started as a guard; it then calls [Guard].
const GuardArg = "guard"

// ErrGuard says that the guard could not be started, and so the command was not.
var ErrGuard = errors.New("cannot start the process that guards the command")

// Status is how a command ended.
type Status struct {
	Code   int       // its exit code; 128 + the signal's number if it died of one
	Signal os.Signal // that it died of, or nil
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
	orphans  func()       // ends the care for them
	asleep   atomic.Int32 // the signal that stopped it, or 0
}

// Start starts the command, guarded until the deadline. Where its standard input is an *os.File, it
// gets the file itself, and the terminal with it. The guard returns the will if the program is gone,
// and the command and its group after it. If the command cannot be started, nothing stays behind. The
// caller must call Close.
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
	cmd.WaitDelay = time.Second // for pipes that it left to others; files need no copying and no delay
	if err := child.start(); err != nil {
		g.dismiss()
		return nil, err
	}
	child.Expect(deadline)
	child.orphans = adoptOrphans(child.PID())
	return child, nil
}

// PID is the process id of the command.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Exited is closed when the command has ended; others of its group may still run.
func (c *Child) Exited() <-chan struct{} { return c.exited }

// Status is how the command ended. It is valid once Exited is closed.
func (c *Child) Status() Status { return c.status }

// Stopped receives a value when a signal has stopped the command, which then stays so until Resume
// or another process continues it.
func (c *Child) Stopped() <-chan struct{} { return c.stopped }

// Expect tells the guard until when the command may run.
func (c *Child) Expect(deadline time.Time) { c.guard.expect(c.group, deadline) }

// Close takes the terminal back and sends the guard home. What is left of the group is on its own
// from then on.
func (c *Child) Close() {
	c.orphans()
	c.terminal.close()
	c.overdue = c.guard.dismiss()
}

// Overdue reports whether the guard killed the command, since its deadline had passed and the
// program did not act. It is valid after Close.
func (c *Child) Overdue() bool { return c.overdue && c.status.Signal == os.Kill }

// Notify returns the signals that a program which runs a command should pass to [Child.Forward],
// until stop is called. Those that the program was started to ignore, as nohup does, stay ignored.
func Notify() (signals <-chan os.Signal, stop func()) {
	wanted := make(chan os.Signal, 16)
	catch(wanted, forwarded())
	return wanted, func() { signal.Stop(wanted) }
}

// GoOn keeps the program from being ended by a write to a closed pipe, or suspended by Ctrl-Z, from
// now on: its last words are no reason for another exit code.
func GoOn() {
	catch(make(chan os.Signal, 1), dropped()) // and not ignore: a command inherits what is ignored
}

func catch(c chan<- os.Signal, signals []os.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}
