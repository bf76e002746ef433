package peers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
	"github.com/redlatch/redlatch/tests/internal/worker"
)

// interopVariable is where the libraries of other languages are that make interop has installed.
// With it a library that is missing is a failure; without it, a reason to skip its test.
const interopVariable = "REDLATCH_INTEROP"

// realClient is a lock library of another language, driven by a program in tests/foreign.
type realClient struct {
	name    string
	key     string                            // that the library gives the lock "a"
	command []string                          // before host, port and key
	missing func() (what string, absent bool) // what to install
}

// debianPython is the Python that Debian's packages are for. Another one may come first on PATH.
const debianPython = "/usr/bin/python3"

var realClients = []realClient{
	{"redis-py", "a", []string{debianPython, "foreign/redispy.py"}, lacksRedisPy},
	{"laravel", "a", []string{"php", "foreign/laravel.php"}, func() (string, bool) {
		_, err := os.Stat("/usr/share/php/Illuminate/Cache/autoload.php")
		return "php-illuminate-cache, php-cli and php-redis", err != nil || exec.Command("php", "--ri", "redis").Run() != nil
	}},
	{"redis-cli", "a", []string{"sh", "foreign/rediscli.sh"}, func() (string, bool) {
		_, err := exec.LookPath("redis-cli")
		return "redis-tools", err != nil
	}},
	{"redlock4", "a", nil, nil},
	{"redlock5", "a", nil, nil},
	{"sesamecare", "a", nil, nil},
	{"redis-semaphore", "mutex:a", nil, nil},
}

func lacksRedisPy() (string, bool) {
	return "python3-redis", exec.Command(debianPython, "-c", "import redis").Run() != nil
}

// needForeign skips a test for want of a program or a library, or fails it under make interop.
func needForeign(t *testing.T, missing func() (string, bool)) {
	t.Helper()
	what, absent := missing()
	switch {
	case absent && os.Getenv(interopVariable) != "":
		t.Fatalf("%s is not there", what)
	case absent:
		t.Skipf("%s is not installed: make interop installs it", what)
	}
}

// nodeModules is where make interop keeps what npm installed.
func nodeModules() string {
	if dir := os.Getenv(interopVariable); dir != "" {
		return dir
	}
	dir, _ := filepath.Abs("../../.interop")
	return dir
}

func lacksNode() (string, bool) {
	_, err := os.Stat(filepath.Join(nodeModules(), "node_modules", "ioredis"))
	_, none := exec.LookPath("node")
	return "node, with the packages of tests/foreign/package.json,", err != nil || none != nil
}

// otherProcess is a program that holds or wants a lock, and is told what to do.
type otherProcess struct {
	t     *testing.T
	input io.Writer
	lines chan string
}

// startForeign runs a program with these arguments, and returns when it is ready. It ends with the
// test.
func startForeign(t *testing.T, command ...string) *otherProcess {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	input := check.Value(cmd.StdinPipe()).OK(t)
	output := check.Value(cmd.StdoutPipe()).OK(t)
	check.OK(t, "Start", cmd.Start())
	p := &otherProcess{t: t, input: input, lines: make(chan string, 16)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for in := bufio.NewScanner(output); in.Scan(); {
			p.lines <- in.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	p.want("ready")
	return p
}

// tell sends a command.
func (p *otherProcess) tell(command string) {
	p.t.Helper()
	check.OK(p.t, "Fprintln", check.ErrorOf(fmt.Fprintln(p.input, command)))
}

// want checks what the program says next, which begins with that word.
func (p *otherProcess) want(word string) string {
	p.t.Helper()
	line := help.Receive(p.t, p.lines, "another library's answer")
	check.Must(p.t, strings.HasPrefix(line, word), "the other library says %q, want %q", line, word)
	return line
}

func (p *otherProcess) ask(command, word string) string {
	p.t.Helper()
	p.tell(command)
	return p.want(word)
}

// TestRealClients: each library and redlatch exclude each other, wait for each other, and release
// only what is theirs; also with both sides at work at once.
func TestRealClients(t *testing.T) {
	t.Parallel()
	for _, other := range realClients {
		t.Run(other.name, func(t *testing.T) {
			t.Parallel()
			missing := other.missing
			if missing == nil {
				missing = lacksNode
				other.command = []string{"node", "foreign/node.js", other.name, nodeModules()}
			}
			needForeign(t, missing)
			s := redistest.Start(t)
			host, port, _ := strings.Cut(s.Addr(), ":")
			p := startForeign(t, append(other.command, host, port, other.key)...)
			ours := &wire.Counting{Conn: wire.Dial(t, s.Addr())}
			m := wire.Wrap(t, ours, unprefixed()).Mutex(other.key)
			excludeBothWays(t, s, p, m, ours)
			bothAtOnce(t, s, func(c *redlatch.Client) shared { return c.Mutex(other.key).With(yielding) },
				func() error { p.ask("wait 600000", "held"); return nil },
				func() error { p.ask("release", "released"); return nil })
		})
	}
}

// bothAtOnce has two processes of redlatch and one of another library lock the same lock again and
// again, and fails if two were ever inside. With Yield the other one gets its turns while there is
// a line.
func bothAtOnce(t *testing.T, s *redistest.Server, with func(c *redlatch.Client) shared, hold, leave func() error) {
	t.Helper()
	const turns = 12
	var inside, overlaps atomic.Int32
	work := func() {
		if inside.Add(1) != 1 {
			overlaps.Add(1)
		}
		time.Sleep(2 * time.Millisecond)
		inside.Add(-1)
	}
	var all sync.WaitGroup
	for range 2 {
		m := with(locktest.Open(t, s.URL(), unprefixed()))
		all.Go(func() {
			var last int64
			for range turns {
				l, err := m.Lock(locktest.Within(t, locktest.Patience))
				if err != nil {
					t.Error(err)
					return
				}
				if work(); l.Token() <= last {
					t.Errorf("after token %d came %d", last, l.Token())
				}
				last = l.Token()
				check.Nil(t, "Release", l.Release(t.Context()))
			}
		})
	}
	for range turns {
		check.OK(t, "hold", hold())
		work()
		check.OK(t, "leave", leave())
	}
	all.Wait()
	check.That(t, overlaps.Load() <= 0, "two were inside %d times", overlaps.Load())
}

// yielding is how the tests of both sides at once share a lock.
var yielding = redlatch.LockOptions{TTL: help.Lasting, Yield: redlatch.Yield{Every: 4}}

// TestNeighboursAtOnce: both sides of a lock by the protocols of Redisson and Spring.
func TestNeighboursAtOnce(t *testing.T) {
	t.Parallel()
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			other := pair.other(t, s, "1")
			bothAtOnce(t, s, func(c *redlatch.Client) shared {
				switch m := pair.ours(t, c).(type) {
				case *redlatch.Mutex:
					return m.With(yielding)
				case *redlatch.ReentrantMutex:
					return m.With(yielding)
				}
				panic("another kind")
			}, func() error {
				_, err := awaitAnnounced(locktest.Within(t, locktest.Patience), other, nil)
				return err
			}, func() error { return other.unlock(t.Context()) })
		})
	}
}

// tries is how many commands have asked a server for a lock, in any of the ways of lock libraries.
func tries(s *redistest.Server) (n int) {
	for _, command := range []string{"set", "setnx", "eval", "evalsha"} {
		n += help.CommandCalls(s, command)
	}
	return n
}

func excludeBothWays(t *testing.T, s *redistest.Server, p *otherProcess, m *redlatch.Mutex, ours *wire.Counting) {
	const ttl = " 600000" // longer than a test is patient
	// Redlatch holds.
	lease := locktest.Lock(t, m)
	p.ask("try"+ttl, "taken")
	tried := tries(s)
	p.tell("wait" + ttl)
	locktest.Eventually(t, "the other library tries, and waits", func() bool { return tries(s) > tried })
	locktest.Release(t, lease)
	released := time.Now()
	p.want("held")
	t.Logf("the other library had the lock %v after redlatch released it", time.Since(released).Round(time.Millisecond))

	// The other side holds.
	check.Error(t, "TryLock", check.ErrorOf(m.TryLock(t.Context())), redlatch.ErrTaken)
	result := help.GoLock(t.Context(), m)
	locktest.Eventually(t, "redlatch asked a few times", func() bool { return ours.Count("mutex await") >= 4 })
	p.ask("release", "released")
	before := ours.Count("mutex await")
	released = time.Now()
	lease = help.Await(t, result)
	t.Logf("redlatch had the lock %v after the other library released it", time.Since(released).Round(time.Millisecond))
	if n := ours.Count("mutex await") - before; n > 2 {
		t.Errorf("redlatch asked %d times more until it had the lock, want 2 at most", n)
	}

	// It does not release what is ours, whatever it answers, and we do not release what is its own.
	if got := p.ask("release", ""); s.Do("GET", m.Key()) != lease.Owner() {
		t.Errorf("after a second release (%q) the key says %q, want redlatch's owner", got, s.Do("GET", m.Key()))
	}
	s.Do("DEL", m.Key())
	p.ask("try"+ttl, "held")
	check.Error(t, "Release", lease.Release(context.Background()), redlatch.ErrNotHeld)
	p.ask("release", "released")
}

// startPython runs a program of tests/python for this server.
func startPython(t *testing.T, s *redistest.Server, program string, args ...string) *otherProcess {
	t.Helper()
	needForeign(t, lacksRedisPy)
	host, port, _ := strings.Cut(s.Addr(), ":")
	return startForeign(t, append([]string{debianPython, "-B", "python/" + program, host, port}, args...)...)
}

// TestPythonFindsTheScripts: the client in Python puts every script together, also where no package of
// Python is installed that the other tests need.
func TestPythonFindsTheScripts(t *testing.T) {
	t.Parallel()
	python := exec.Command(debianPython, "-B", "-c", "import scripts; print(all(scripts.text(name) for name in scripts.SOURCES))")
	python.Dir = "python"
	out, err := python.CombinedOutput()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not installed", debianPython)
	}
	check.That(t, err == nil && string(out) == "True\n", "the scripts in Python: %v\n%s", err, out)
}

// TestPythonRunsTheVectors: every vector, read by a program that shares no code with redlatch.
func TestPythonRunsTheVectors(t *testing.T) {
	t.Parallel()
	p := startPython(t, redistest.Start(t), "vectors.py")
	total := 0
	for _, f := range vectorFiles() {
		total += len(f.steps)
		p.want("") // one of the files
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
	m := locktest.Open(t, s.URL(), redlatch.Options{}).Mutex("a")
	check.Error(t, "TryLock while Python holds the mutex", check.ErrorOf(m.TryLock(t.Context())), redlatch.ErrTaken)
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
