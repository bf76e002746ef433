//go:build unix

package child

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the program's controlling terminal, which the group in the foreground reads from and
// gets Ctrl-C from. A nil terminal is none.
type terminal struct {
	fd   int
	ours int // the group of this program
	lent bool
}

// openTerminal returns the terminal behind a standard input, if it is one that controls this
// program.
func openTerminal(stdin io.Reader) *terminal {
	file, ok := stdin.(*os.File)
	if !ok {
		return nil
	}
	t := &terminal{fd: int(file.Fd()), ours: syscall.Getpgrp()}
	if _, err := t.foreground(); err != nil {
		return nil
	}
	return t
}

func (t *terminal) foreground() (group int, err error) { return unix.IoctlGetInt(t.fd, unix.TIOCGPGRP) }

// handOver reports whether a new command should start in the foreground, and notes that it does: if
// this program is there, and does not write to a pipe. Behind a pipe there may be a pager, which
// shares the group of this program and needs the terminal; the command then gets it if and when it
// asks, by give.
func (t *terminal) handOver(stdout io.Writer) bool {
	if t == nil {
		return false
	}
	group, err := t.foreground()
	if err != nil || group != t.ours || isPipe(stdout) {
		return false
	}
	t.lent = true
	return true
}

func isPipe(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return true
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// forbear lets this program use the terminal from the background, to which it has given it away: it
// ignores the signals that would stop it there. It comes after the start of the command, which
// would inherit the ignoring.
func (t *terminal) forbear() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU, syscall.SIGTTIN)
	}
}

// give moves the group to the foreground, if this program is there or the group itself already is.
func (t *terminal) give(group int) bool {
	if t == nil {
		return false
	}
	current, err := t.foreground()
	if err != nil || current != t.ours && current != group {
		return false
	}
	t.lent = true
	return t.set(group)
}

// takeBack moves this program to the foreground, if it gave the terminal away.
func (t *terminal) takeBack() {
	if t != nil && t.lent {
		t.set(t.ours)
		t.lent = false
	}
}

func (t *terminal) set(group int) bool {
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) == nil
}
