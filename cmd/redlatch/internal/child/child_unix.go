//go:build unix

package child

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

func forwarded() []os.Signal {
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// Ends reports whether a forwarded signal is meant to end the program. SIGHUP is not: many daemons
// reload their configuration on it.
func Ends(sig os.Signal) bool {
	return sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 && sig != syscall.SIGHUP
}

// dropped returns the signals that would end the program when the reader of its log is gone
// (SIGPIPE), or suspend it while its lease goes on (Ctrl-Z).
func dropped() []os.Signal { return []os.Signal{syscall.SIGPIPE, syscall.SIGTSTP} }

// start starts the process, and a goroutine that waits for it.
func (c *Child) start() error {
	c.terminal = openTerminal(c.cmd.Stdin)
	heed()
	c.cmd.SysProcAttr = attributes()
	c.cmd.SysProcAttr.Setpgid = true
	if c.terminal.handOver(c.cmd.Stdout) {
		c.cmd.SysProcAttr.Foreground = true
		c.cmd.SysProcAttr.Ctty = c.terminal.fd
	}
	started := make(chan error)
	go c.run(started)
	err := <-started
	if err != nil {
		c.terminal.close()
	}
	return err
}

// run starts the process and waits for its end, on one thread. If the kernel kills the process when
// its parent dies, the parent is the thread that started it, and Go ends idle threads.
func (c *Child) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	forbear()
	if err != nil {
		started <- err
		return
	}
	c.group = c.cmd.Process.Pid
	started <- nil
	c.status = c.reap()
	_ = c.cmd.Wait() // the process is reaped; this ends the copying to a writer that is no file
	close(c.exited)
}

// reap waits for the process. It does what cmd.Wait would, and also learns when the process is
// suspended.
func (c *Child) reap() Status {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(c.group, &ws, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return Status{Code: -1}
		case ws.Stopped():
			c.asleep.Store(int32(ws.StopSignal()))
			select {
			case c.stopped <- struct{}{}:
			default:
			}
		case ws.Signaled():
			return Status{Code: 128 + int(ws.Signal()), Signal: ws.Signal()}
		case ws.Exited():
			return Status{Code: ws.ExitStatus()}
		}
	}
}

// Forward passes a signal on. SIGUSR1 and SIGUSR2, whose meaning is the command's own, go to the
// command alone. All others go to its whole group, as they would from a terminal: else its children
// would work on without the lock. An error means that no process got the signal.
func (c *Child) Forward(sig os.Signal) error {
	switch sig {
	case syscall.SIGUSR1, syscall.SIGUSR2:
		return syscall.Kill(c.group, sig.(syscall.Signal))
	}
	return c.tell(sig.(syscall.Signal))
}

// Terminate asks the whole group to end.
func (c *Child) Terminate() { _ = c.tell(syscall.SIGTERM) }

// tell sends the whole group a signal that is meant to end it.
func (c *Child) tell(sig syscall.Signal) error {
	err := c.signal(sig)
	_ = c.signal(syscall.SIGCONT) // a suspended process would not handle the signal
	return err
}

// Kill ends the whole group.
func (c *Child) Kill() { _ = c.signal(syscall.SIGKILL) }

// QuitQuietly makes SIGQUIT end this program with the exit code of that signal until stop is called. By
// default it would print the stack of every goroutine. It is for the time before Notify.
func QuitQuietly() (stop func()) {
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	go func() {
		if _, ok := <-quit; ok {
			os.Exit(128 + int(syscall.SIGQUIT))
		}
	}()
	return func() {
		signal.Stop(quit)
		close(quit)
	}
}

// Gone reports whether no process of the group is left.
func (c *Child) Gone() bool {
	if syscall.Kill(-c.group, 0) == syscall.ESRCH {
		return true
	}
	select {
	case <-c.exited: // else the command itself is left
	default:
		return false
	}
	if time.Since(c.looked) < lookEvery {
		return false
	}
	c.looked = time.Now()
	return ended(c.group)
}

// lookEvery is how often a group is looked at process by process, which takes milliseconds.
const lookEvery = 100 * time.Millisecond

// signal sends a signal to the whole group. It fails if the group is gone, which is fine.
func (c *Child) signal(sig syscall.Signal) error { return syscall.Kill(-c.group, sig) }

// Resume continues a command that the terminal suspended. If the command wanted the terminal, it
// gets it, provided that the program itself has it. If it was Ctrl-Z, the command goes on, as its
// lease would not wait, and Resume reports true. A command that SIGSTOP suspended stays suspended.
func (c *Child) Resume() (suspended bool) {
	sig := syscall.Signal(c.asleep.Load())
	switch sig {
	case syscall.SIGTSTP:
	case syscall.SIGTTIN, syscall.SIGTTOU:
		if !c.terminal.give(c.group) {
			return false // until the program itself comes to the foreground
		}
	default:
		return false
	}
	c.asleep.Store(0)
	_ = c.signal(syscall.SIGCONT)
	return sig == syscall.SIGTSTP
}
