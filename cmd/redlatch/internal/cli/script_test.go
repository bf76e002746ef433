//go:build unix

package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/look"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// patience bounds every wait in a script. It only matters when something is broken: verify works for
// 21 seconds, and twice as long on a machine that is late with all.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "redlatch" {
		hearSignals()
	}
	testscript.Main(m, map[string]func(){
		"redlatch": func() {
			if age, err := time.ParseDuration(os.Getenv("FRESH")); err == nil {
				look.Fresh = age
			}
			os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
	})
}

// hearSignals has the programs that the tests start hear all signals. A shell ignores the first two
// for what it runs in the background, and nohup ignores the third, and whatever that starts would
// ignore them, too. What is caught is not ignored any more after an exec.
func hearSignals() {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// TestScripts runs testdata/*.txtar, each with a server of its own that REDLATCH_REDIS names.
// Besides the commands of testscript they use
//
//	redis ARG...             one command for the server; its reply becomes stdout
//	server pause|resume|kill|restart
//	env FRESH=1h             holders are as if they had come just now, for that long
//	exits CODE PROGRAM ARG... run a program, which must end with that code
//	start JOB PROGRAM ARG... start a program in the background
//	signal NAME JOB          send it a signal, such as TERM
//	ends JOB CODE            wait for its end, with that code; its output becomes stdout and stderr
//	await file NAME          wait until the file is there and not empty
//	await gone NAME...       wait until no process whose id is in one of these files runs
//	await redis WANT ARG...  wait until the server replies so
//	await said JOB REGEXP    wait until a line of a job's output or its errors matches
//	intime                   check in the events on stderr that the command ended, or was killed, before its lease did, or was
//	                         later by no more than the machine was
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setup,
		Condition:           condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"redis":  cmdRedis,
			"server": cmdServer,
			"quorum": cmdQuorum,
			"exits":  cmdExits,
			"start":  cmdStart,
			"signal": cmdSignal,
			"ends":   cmdEnds,
			"await":  cmdAwait,
			"intime": cmdInTime,
		},
	})
}

// world is what belongs to one script.
type world struct {
	server *redistest.Server
	nodes  []*redistest.Server // of a quorum, if the script wants one
	env    []string            // names
	jobs   map[string]*job
	late   *check.Lateness
}

type job struct {
	cmd            *exec.Cmd
	stdout, stderr output
	done           chan error
}

// output is what a job has written, which can be read while the job writes.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

type worldKey struct{}

func setup(env *testscript.Env) error {
	dir := filepath.Join(env.WorkDir, ".redis")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	server, err := redistest.Launch(dir)
	if err != nil {
		return err
	}
	w := &world{server: server, jobs: make(map[string]*job), late: check.WatchLateness()}
	env.Defer(w.end)
	env.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector would have every program take a second to end
	env.Setenv("ADDR", server.Addr())
	env.Setenv("REDIS", server.URL())
	env.Setenv("REDLATCH_REDIS", server.URL())
	for _, v := range env.Vars {
		name, _, _ := strings.Cut(v, "=")
		w.env = append(w.env, name)
	}
	env.Values[worldKey{}] = w
	return nil
}

// end leaves nothing running, also after a failure.
func (w *world) end() {
	w.late.End()
	for _, j := range w.jobs {
		_ = j.cmd.Process.Kill()
		<-j.done
	}
	w.server.Stop()
	for _, node := range w.nodes {
		node.Stop()
	}
}

func of(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

func usage(ts *testscript.TestScript, neg bool, ok bool, text string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", text)
	}
}

func cmdRedis(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 0, "redis ARG...")
	reply, err := of(ts).server.DoErr(args...)
	ts.Check(err)
	fmt.Fprintln(ts.Stdout(), reply)
}

func cmdServer(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "server pause|resume|kill|restart")
	s := of(ts).server
	does := map[string]func(){"pause": s.Pause, "resume": s.Resume, "kill": s.Kill, "restart": s.Restart}[args[0]]
	usage(ts, neg, does != nil, "server pause|resume|kill|restart")
	does()
}

// cmdQuorum starts the nodes of a quorum, and has the programs use it from then on; or kills one.
func cmdQuorum(ts *testscript.TestScript, neg bool, args []string) {
	const text = "quorum start N | quorum kill I | quorum empty I"
	usage(ts, neg, len(args) == 2, text)
	w := of(ts)
	n, err := strconv.Atoi(args[1])
	usage(ts, neg, err == nil, text)
	switch args[0] {
	case "kill":
		w.nodes[n].Kill()
		return
	case "empty":
		w.nodes[n].Do("FLUSHALL")
		return
	}
	var urls []string
	for i := range n {
		dir := ts.MkAbs(fmt.Sprintf(".node%d", i))
		ts.Check(os.Mkdir(dir, 0o700))
		node, err := redistest.Launch(dir)
		ts.Check(err)
		w.nodes, urls = append(w.nodes, node), append(urls, node.URL())
	}
	ts.Setenv("REDLATCH_REDIS", strings.Join(urls, " "))
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 1, "exits CODE PROGRAM ARG...")
	err := ts.Exec(args[1], args[2:]...)
	checkCode(ts, strings.Join(args[1:], " "), err, args[0])
}

func checkCode(ts *testscript.TestScript, what string, err error, want string) {
	var exit *exec.ExitError
	switch {
	case err == nil && want == "0":
	case errors.As(err, &exit) && strconv.Itoa(exit.ExitCode()) == want:
	default:
		ts.Fatalf("%s: %v, want exit code %s", what, err, want)
	}
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 1, "start JOB PROGRAM ARG...")
	w := of(ts)
	if w.jobs[args[0]] != nil {
		ts.Fatalf("job %s was started before", args[0])
	}
	j := &job{done: make(chan error, 1)}
	j.cmd = exec.Command("env", args[1:]...) // which looks on the PATH of the script
	j.cmd.Dir, j.cmd.Stdout, j.cmd.Stderr = ts.MkAbs("."), &j.stdout, &j.stderr
	j.cmd.WaitDelay = patience // what it left behind may hold its output open
	for _, name := range w.env {
		j.cmd.Env = append(j.cmd.Env, name+"="+ts.Getenv(name))
	}
	ts.Check(j.cmd.Start())
	w.jobs[args[0]] = j
	go func() { j.done <- j.cmd.Wait() }()
}

func named(ts *testscript.TestScript, name string) *job {
	j := of(ts).jobs[name]
	if j == nil {
		ts.Fatalf("there is no job %s", name)
	}
	return j
}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "signal NAME JOB")
	signals := map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
	}
	sig, ok := signals[args[0]]
	usage(ts, neg, ok, "signal NAME JOB")
	ts.Check(named(ts, args[1]).cmd.Process.Signal(sig))
}

func cmdEnds(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2, "ends JOB CODE")
	j := named(ts, args[0])
	var err error
	select {
	case err = <-j.done:
	case <-time.After(patience):
		_ = j.cmd.Process.Kill()
		<-j.done
		j.done <- nil // for the end of the script
		ts.Fatalf("job %s does not end; stderr:\n%s", args[0], j.stderr.String())
	}
	delete(of(ts).jobs, args[0])
	_, _ = io.WriteString(ts.Stdout(), j.stdout.String())
	_, _ = io.WriteString(ts.Stderr(), j.stderr.String())
	checkCode(ts, args[0], err, args[1])
}

func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	const text = "await file|gone|redis|said ARG..."
	usage(ts, neg, len(args) > 1, text)
	s := of(ts).server
	looks := map[string]func(args []string) bool{
		"file": func(args []string) bool {
			info, err := os.Stat(ts.MkAbs(args[0]))
			return err == nil && info.Size() > 0
		},
		"gone": func(args []string) bool {
			return !slices.ContainsFunc(args, func(file string) bool { return runs(strings.TrimSpace(ts.ReadFile(file))) })
		},
		"said": func(args []string) bool {
			j := named(ts, args[0])
			line, err := regexp.Compile("(?m)" + args[1])
			ts.Check(err)
			return line.MatchString(j.stdout.String()) || line.MatchString(j.stderr.String())
		},
		"redis": func(args []string) bool { got, err := s.DoErr(args[1:]...); return err == nil && got == args[0] },
	}
	look := looks[args[0]]
	usage(ts, neg, look != nil, text)
	for began := time.Now(); !look(args[1:]); time.Sleep(check.Rest(began)) {
		if time.Since(began) > patience {
			ts.Fatalf("await %s: it does not come", strings.Join(args, " "))
		}
	}
}

// runs reports whether there is such a process. One that is dead, and whose parent has not noticed
// yet, does not run.
func runs(pid string) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
	return err == nil && len(bytes.TrimSpace(state)) > 0 && !bytes.HasPrefix(bytes.TrimSpace(state), []byte("Z"))
}

// condition knows the one that testscript does not: whether the test may become another user.
func condition(name string) (bool, error) {
	if name != "root" {
		return false, fmt.Errorf("unknown condition %q", name)
	}
	return os.Getuid() == 0, nil
}

func cmdInTime(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 0, "intime")
	var extended, deadline, end time.Time
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		var e struct {
			Time      time.Time
			Event     string
			Remaining int64 `json:"remaining_ms"`
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			continue // the command's own
		}
		switch e.Event {
		case "granted", "extended":
			extended, deadline = e.Time, e.Time.Add(time.Duration(e.Remaining)*time.Millisecond)
		case "kill", "exit":
			if end.IsZero() {
				end = e.Time
			}
		}
	}
	late := of(ts).late.Between(extended, end)
	if end.IsZero() || deadline.IsZero() || !end.Before(deadline.Add(late)) {
		ts.Fatalf("the command ended at %v, want before %v, and %v later at most, for the machine was late by that", end, deadline, late)
	}
}
