package cli_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// session is a program on a terminal of its own, and someone in front of it.
type session struct {
	t        *testing.T
	server   *redistest.Server
	keyboard *os.File
	cmd      *exec.Cmd
	screen   output
}

// login starts the program redlatch on a new terminal. Its stdout is the terminal, or what stdout
// says.
func login(t *testing.T, stdout io.Writer, args ...string) *session {
	t.Helper()
	server := redistest.Start(t)
	keyboard, terminal := openTerminal(t)
	s := &session{t: t, server: server, keyboard: keyboard}
	if stdout == nil {
		stdout = terminal
	}
	s.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: append([]string{"redlatch"}, args...), Env: append(os.Environ(), "REDLATCH_REDIS="+server.URL()),
		Stdin: terminal, Stdout: stdout, Stderr: terminal, SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true},
	}
	check.OK(t, "Start", s.cmd.Start())
	check.OK(t, "Close", terminal.Close())
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		_, _ = io.Copy(&s.screen, keyboard) // ends with an error when no process has the terminal open any more
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		<-seen
		_ = keyboard.Close()
	})
	return s
}

// openTerminal returns both ends of a new pseudo terminal.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	number := check.Value(unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)).OK(t)
	check.OK(t, "IoctlSetPointerInt", unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0))
	return keyboard, check.Value(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)).OK(t)
}

// see waits for a text on the screen.
func (s *session) see(want string) {
	s.t.Helper()
	locktest.EventuallyOr(s.t, func() bool { return strings.Contains(s.screen.String(), want) }, func() string {
		return fmt.Sprintf("the screen shows %q:\n%s", want, s.screen.String())
	})
}

// press types keys.
func (s *session) press(keys string) {
	s.t.Helper()
	check.OK(s.t, "WriteString", check.ErrorOf(s.keyboard.WriteString(keys)))
}

// ends waits for the end of the program.
func (s *session) ends(code int) {
	s.t.Helper()
	kill := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	_ = s.cmd.Wait()
	check.Equal(s.t, s.cmd.ProcessState.ExitCode(), code, "exit code; the screen:\n%s", s.screen.String())
}

const (
	ctrlC = "\x03"
	ctrlD = "\x04"
	ctrlZ = "\x1a"
)

func TestCtrlCReachesTheCommandAndNotRedlatch(t *testing.T) {
	t.Parallel()
	s := login(t, nil, "run", "job", "--", "sh", "-c", `trap 'echo interrupted; exit 42' INT; echo ready; while :; do sleep 0.01; done`)
	s.see("ready")
	s.press(ctrlC)
	s.ends(42)
	s.see("interrupted")
	check.That(t, !strings.Contains(s.screen.String(), "redlatch:"), "redlatch had something to say:\n%s", s.screen.String())
}

func TestCtrlZDoesNotSuspendTheCommand(t *testing.T) {
	t.Parallel()
	s := login(t, nil, "run", "job", "--", "sh", "-c", `echo ready; read line; echo "got $line"`)
	s.see("ready")
	s.press(ctrlZ)
	s.see(`the command cannot be suspended while it holds "job"`)
	s.press("some words\n")
	s.ends(0)
	s.see("got some words")
}

func TestCommandInAPipelineGetsTheTerminalWhenItAsks(t *testing.T) {
	t.Parallel()
	var pipe bytes.Buffer
	s := login(t, &pipe, "run", "job", "--", "sh", "-c", `echo ready >&2; read line; echo "got $line"`)
	s.see("ready")
	s.press("some words\n")
	s.ends(0)
	check.Equal(t, pipe.String(), "got some words\n", "the pipe got")
}

// TestPasswordIsAskedFor: the standard input is no terminal, and the command opens the terminal by itself.
func TestPasswordIsAskedFor(t *testing.T) {
	t.Parallel()
	const inner = `exec redlatch run job -- sh -c 'echo ready; read line </dev/tty; echo "got $line"' </dev/null`
	s := login(t, nil, "run", "outer", "--", "sh", "-c", inner)
	s.see("ready")
	s.press("some words\n")
	s.see("got some words")
	s.ends(0)
}

// TestTerminalInASecondTerm: a command that is started anew gets the terminal like the first.
func TestTerminalInASecondTerm(t *testing.T) {
	t.Parallel()
	s := login(t, io.Discard, "elect", "--again", "--ttl", "6s", "job", "--", "sh", "-c", `read line; echo "got $line" >&2; exec sleep 60`)
	s.press("first\n")
	s.see("got first")
	s.server.Do("DEL", locktest.StateKey("job"))
	s.see("standing again")
	s.press("second\n")
	s.see("got second")
}

// TestReleaseAsks: on a terminal the operator may mean a holder that came only just now.
func TestReleaseAsks(t *testing.T) {
	t.Parallel()
	for answer, code := range map[string]int{"\r": 1, "n\r": 1, "y\r": 0, ctrlD: 1} {
		// A machine that lets the server wait for as long as a request may take is not what this is about.
		const again = `while FRESH=1h redlatch release job --force; code=$?; [ $code = 69 ]; do :; done; echo code $code; sleep 60`
		s := login(t, nil, "run", "job", "--", "sh", "-c", again)
		s.see("so it may not be the holder you meant; take it? [y/N]")
		s.press(answer)
		if code == 1 {
			s.see("\nredlatch: nothing was done")
		}
		s.see(fmt.Sprintf("code %d", code))
	}
}
