// Package proctest runs a test binary as further processes of its own test, which can be killed or
// suspended. TestMain calls [Main] first, with the roles that such a process can have:
//
//	func TestMain(m *testing.M) {
//		proctest.Main(map[string]proctest.Role{"holder": hold})
//		os.Exit(m.Run())
//	}
//
// and a test starts one, and reads what the role prints:
//
//	holder := proctest.Start(t, "holder", server.URL())
//	holder.Expect("held")
//	holder.Kill()
package proctest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// variable names the role of a process, and arguments after it.
const variable = "REDLATCH_PROCTEST"

// patience bounds the wait for a line. It matters only when something is broken.
const patience = 30 * time.Second

// Role is what a process does. Its lines on standard output are for the test.
type Role func(arguments []string) error

// Main runs the role for which this process was started, and ends the process. In the process of
// the test it returns at once.
func Main(roles map[string]Role) {
	text, ok := os.LookupEnv(variable)
	if !ok {
		return
	}
	words := strings.Split(text, "\n")
	role := roles[words[0]]
	if role == nil {
		fmt.Fprintf(os.Stderr, "proctest: no role %q\n", words[0])
		os.Exit(2)
	}
	if err := role(words[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", words[0], err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Process is another process of the test. It is killed when the test ends.
type Process struct {
	t     testing.TB
	role  string
	cmd   *exec.Cmd
	lines chan string // is closed at the end of its output
}

// Start starts a process in that role. The arguments must not contain newlines.
func Start(t testing.TB, role string, arguments ...string) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), variable+"="+strings.Join(append([]string{role}, arguments...), "\n"))
	cmd.Stderr = os.Stderr
	output := check.Value(cmd.StdoutPipe()).OK(t)
	check.OK(t, "Start", cmd.Start())
	p := &Process{t: t, role: role, cmd: cmd, lines: make(chan string, 1000)}
	go func() {
		defer close(p.lines)
		for in := bufio.NewScanner(output); in.Scan(); {
			p.lines <- in.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range p.lines { // to the end of its output
		}
		_ = cmd.Wait()
	})
	return p
}

// Next returns the next line that the process prints. It fails the test if none comes.
func (p *Process) Next() string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			p.t.Fatalf("the process %s has ended", p.role)
		}
		return line
	case <-time.After(patience):
		p.t.Fatalf("the process %s says nothing for %v", p.role, patience)
	}
	return ""
}

// Expect skips lines until the process prints that one.
func (p *Process) Expect(line string) {
	p.t.Helper()
	for got := p.Next(); got != line; got = p.Next() {
	}
}

// Said returns the lines that the process has printed since the last look.
func (p *Process) Said() (lines []string) {
	for {
		select {
		case line, ok := <-p.lines:
			if ok {
				lines = append(lines, line)
				continue
			}
		default:
		}
		return lines
	}
}

// Kill kills the process, which leaves everything as it is.
func (p *Process) Kill() {
	p.t.Helper()
	check.OK(p.t, "Kill", p.cmd.Process.Kill())
}
