//go:build unix

package child

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the program's controlling terminal. The foreground group reads from it and gets its
// Ctrl-C.
type terminal struct {
	fd    int      // -1 if there is no terminal: each request to it fails
	apart *os.File // /dev/tty, if stdin is not the terminal: a command may read a password from it
	ours  int      // the group of this program
	lent  bool
}

// openTerminal opens the terminal that controls this program, if it has one.
func openTerminal(stdin io.Reader) *terminal {
	t := &terminal{ours: syscall.Getpgrp()}
	if file, ok := stdin.(*os.File); ok {
		t.fd = int(file.Fd())
		if _, err := t.foreground(); err == nil {
			return t
		}
	}
	t.fd = -1
	if apart, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		t.fd, t.apart = int(apart.Fd()), apart
	}
	return t
}

// close moves this program to the foreground if it gave the terminal away, and closes /dev/tty if it
// was opened.
func (t *terminal) close() {
	if t.lent {
		t.set(t.ours)
	}
	if t.apart != nil {
		_ = t.apart.Close()
	}
}

func (t *terminal) foreground() (group int, err error) { return unix.IoctlGetInt(t.fd, unix.TIOCGPGRP) }

// handOver reports whether a new command should start in the foreground, and notes that it does. It
// should if this program is in the foreground, reads from the terminal, and does not write to a
// pipe. A pipe may lead to a pager, which shares this program's group and needs the terminal. The
// command then gets the terminal only when it asks; see give.
func (t *terminal) handOver(stdout io.Writer) bool {
	group, err := t.foreground()
	t.lent = err == nil && group == t.ours && t.apart == nil && !isPipe(stdout)
	return t.lent
}

func isPipe(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return true
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// heed undoes forbear for the next command, which would inherit ignored signals but no handlers.
// [signal.Reset] would leave the signals ignored. The next forbear removes the handler.
func heed() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTTOU, syscall.SIGTTIN)
}

// forbear lets this program use the terminal from the background after it gave the terminal to the
// command: it ignores the signals that would suspend it. It is called after the command has
// started, which would inherit the ignored signals.
func forbear() {
	signal.Ignore(syscall.SIGTTOU, syscall.SIGTTIN)
}

// give moves the group to the foreground, if this program or the group itself is there now.
func (t *terminal) give(group int) bool {
	current, err := t.foreground()
	if err != nil || current != t.ours && current != group {
		return false
	}
	t.lent = true
	return t.set(group)
}

func (t *terminal) set(group int) bool {
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) == nil
}
