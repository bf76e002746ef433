package peers

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/worker"
)

// startPython runs a program of tests/python for this server.
func startPython(t *testing.T, s *redistest.Server, program string, args ...string) *otherProcess {
	t.Helper()
	needForeign(t, lacksRedisPy)
	host, port, err := net.SplitHostPort(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return startForeign(t, append([]string{debianPython, "-B", "python/" + program, host, port}, args...)...)
}

// TestPythonRunsTheVectors: every vector, read by a program that shares no code with redlatch.
func TestPythonRunsTheVectors(t *testing.T) {
	t.Parallel()
	p := startPython(t, redistest.Start(t), "vectors.py")
	total := 0
	for _, f := range vectorFiles() {
		total += len(f.steps)
	}
	if got := p.want(""); got != fmt.Sprint(total, " vectors") {
		t.Errorf("Python says %q, want that %d vectors hold", got, total)
	}
}

// TestPythonClientTakesItsTurn: between two processes of Go, and hears of its grant.
func TestPythonClientTakesItsTurn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startPython(t, s, "worker.py", "a")
	leave := worker.Job{URL: s.URL(), Name: "a", TTL: time.Minute, Heartbeat: 5 * time.Second, Leave: true}
	before := worker.Start(t, leave)
	first := before.Next()
	p.ask("try", "taken")
	p.ask("lock", "waiting")
	after := worker.Start(t, leave)
	locktest.InLine(t, s, "a", 2)
	if got := locktest.Line(s, "a"); !strings.Contains(got[1], after.Client) {
		t.Errorf("the line is %q, want the second process of Go at its end", got)
	}

	before.Ask()
	said := strings.Fields(p.want("held"))
	token, err := strconv.ParseInt(said[1], 10, 64)
	if err != nil || token <= first.Token || said[2] != "heard" {
		t.Errorf("Python says %q, want a token larger than %d, and that it heard the grant", said, first.Token)
	}
	p.ask("renew", "renewed")
	if l, err := locktest.Open(t, s.URL(), redlatch.Options{}).Mutex("a").TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryLock = %v, %v while Python holds the mutex, want ErrTaken", l, err)
	}
	p.ask("release", "released")
	if last := after.Next(); last.Token <= token {
		t.Errorf("after Python's token %d came %d, want a larger one", token, last.Token)
	}
	p.ask("release", "lost")
	after.Ask()
	help.AwaitFree(t, s, "a")
}

// TestPythonClientSurvivesWhatIsLost: its heartbeat finds a line that is lost, and a holder that
// died.
func TestPythonClientSurvivesWhatIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startPython(t, s, "worker.py", "a")
	s.Do("SET", locktest.StateKey("a"), "rl-dead-1", "PX", "3600000")
	p.ask("lock", "waiting")
	s.Do("DEL", help.QueueKey("a"), help.ClientsKey("a"))
	p.want("waiting") // at its next heartbeat, it asks for its place again
	s.Do("PEXPIRE", locktest.StateKey("a"), "500")
	p.want("held")
	p.ask("release", "released")
}
