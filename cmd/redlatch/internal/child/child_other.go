//go:build !unix

package child

import (
	"io"
	"os"
	"time"
)

func forwarded() []os.Signal { return []os.Signal{os.Interrupt} }

// Ends reports whether a forwarded signal is meant to end the program.
func Ends(os.Signal) bool { return true }

func dropped() []os.Signal { return nil }

// start starts the process, and a goroutine that waits for it.
func (c *Child) start() error {
	if err := c.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = c.cmd.Wait()
		c.status = Status{Code: c.cmd.ProcessState.ExitCode()}
		close(c.exited)
	}()
	return nil
}

// Forward does nothing: the system sends an interrupt to the whole console, including the command.
func (c *Child) Forward(os.Signal) error { return nil }

// Terminate does nothing: the system has no way to ask.
func (c *Child) Terminate() {}

// Kill ends the command.
func (c *Child) Kill() { _ = c.cmd.Process.Kill() }

// QuitQuietly does nothing: the system has no such signal.
func QuitQuietly() (stop func()) { return func() {} }

// Gone reports whether the command has ended.
func (c *Child) Gone() bool {
	select {
	case <-c.exited:
		return true
	default:
		return false
	}
}

// Resume does nothing: this system does not suspend commands.
func (c *Child) Resume() (suspended bool) { return false }

func adoptOrphans(int) (stop func()) { return func() {} }

type guard struct{}

func startGuard(io.Writer, string) (*guard, error) { return &guard{}, nil }

func (*guard) expect(int, time.Time) {}
func (*guard) dismiss() bool         { return false }

// Guard is not used on this system.
func Guard(io.Reader, io.Writer, func(will, message string)) (string, time.Time) {
	return "", time.Time{}
}

type terminal struct{}

func (*terminal) close() {}
