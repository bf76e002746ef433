package operations

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchprom"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/worker"
)

// command is the redlatch command, built for a test, and the server that it is for.
type command struct {
	t    *testing.T
	path string
	url  string
}

func buildCommand(t *testing.T, url string) command {
	t.Helper()
	c := command{t: t, path: filepath.Join(t.TempDir(), "redlatch"), url: url}
	build := exec.Command("go", "build", "-o", c.path, ".")
	build.Dir = "../../cmd/redlatch"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the command: %v\n%s", err, out)
	}
	return c
}

// cmd returns the command with these arguments.
func (c command) cmd(args ...string) *exec.Cmd {
	cmd := exec.Command(c.path, args...)
	cmd.Env = append(os.Environ(), "REDLATCH_REDIS="+c.url, "NO_COLOR=1")
	return cmd
}

// says waits until what the command prints has all of these words.
func (c command) says(args string, words ...string) {
	c.t.Helper()
	var out []byte
	locktest.EventuallyOr(c.t, func() bool {
		out, _ = c.cmd(strings.Fields(args)...).CombinedOutput()
		return hasAll(string(out), words)
	}, func() string { return fmt.Sprintf("redlatch %s says %q in\n%s", args, words, out) })
}

// shows waits until a page of the dashboard has all of these words.
func shows(t *testing.T, page string, words ...string) {
	t.Helper()
	var body string
	locktest.EventuallyOr(t, func() bool {
		resp := check.Value(http.Get(page)).OK(t)
		defer resp.Body.Close()
		data := check.Value(io.ReadAll(resp.Body)).OK(t)
		body = string(data)
		return resp.StatusCode == http.StatusOK && hasAll(body, words)
	}, func() string { return fmt.Sprintf("%s shows %q in\n%s", page, words, body) })
}

func hasAll(text string, words []string) bool {
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

// TestEverythingAtOnce: a holder is killed, a lock is taken by force, and two processes deadlock. An
// engineer who looks finds each, wherever that is: in the record, in the dashboard, in top, in ls,
// and an alert fires.
func TestEverythingAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	cli := buildCommand(t, s.URL())
	metrics := check.Value(redlatchprom.New(redlatchprom.Options{})).OK(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)
	o := help.Brisk(help.Lasting)
	o.Program, o.Hook = "billing", metrics.Hook
	o.Journal = redlatch.JournalOptions{
		Trouble: func(err error) { t.Logf("the journal: %v", err) },
	}
	c := locktest.Open(t, s.URL(), o)

	killed := worker.Start(t, worker.Job{URL: s.URL(), Name: "crashed", TTL: help.Lasting, Heartbeat: 200 * time.Millisecond})
	killed.Next()
	forced := locktest.Lock(t, c.Mutex("taken"))
	help.Hearing(t, s, c) // or it would not be told that the lock is taken by force
	left := worker.Start(t, worker.Job{URL: s.URL(), Name: "x", Then: "y", TTL: help.Lasting, Heartbeat: 200 * time.Millisecond})
	right := worker.Start(t, worker.Job{URL: s.URL(), Name: "y", Then: "x", TTL: help.Lasting, Heartbeat: 200 * time.Millisecond})
	left.Next()
	right.Next()

	killed.Kill()
	heir := help.GoLock(t.Context(), c.Mutex("crashed"))
	left.Ask()
	right.Ask()
	release := cli.cmd("release", "taken", "--force", "--owner", forced.Owner(), "--reason", "ticket 4711")
	if out, err := release.CombinedOutput(); err != nil {
		t.Fatalf("release: %v\n%s", err, out)
	}
	help.WantLost(t, forced)
	var waits sync.WaitGroup
	for range 12 {
		waits.Go(func() {
			_, err := c.Mutex("x").With(redlatch.LockOptions{StrictOrder: redlatch.On, MaxWait: time.Second}).Lock(t.Context())
			check.Error(t, "Lock of a lock in a deadlock", err, redlatch.ErrTaken)
		})
	}
	waits.Wait()

	t.Run("the command shows it", func(t *testing.T) {
		for args, words := range map[string][]string{
			"ls --deadlocks": {"deadlock of 2", "holds x", "waits for y", "holds y", "waits for x"},
			"ls":             {"crashed", "x ", "y "},
			"top":            {"crashed", "x ", "y "},
			"log taken":      {"forced", "ticket 4711", "lost"},
			"log x":          {"timeout", "gave up after"},
			"inspect taken":  {"ticket 4711"},
		} {
			t.Run(args, func(t *testing.T) {
				t.Parallel()
				command{t: t, path: cli.path, url: cli.url}.says(args, words...)
			})
		}
	})

	web := cli.cmd("web", "--listen", "127.0.0.1:0")
	out := check.Value(web.StdoutPipe()).OK(t)
	check.OK(t, "Start", web.Start())
	defer func() { _ = web.Wait() }()
	defer func() { _ = web.Process.Kill() }()
	url := check.Value(bufio.NewReader(out).ReadString('\n')).OK(t)
	url = strings.TrimSpace(url)
	shows(t, url+"locks", "crashed", "Deadlock: each of these waits for what the next one holds")
	shows(t, url+"record", "ticket 4711", "gave up after")
	shows(t, url+"lock?name=taken", "ticket 4711")

	s.Do("PEXPIRE", locktest.StateKey("crashed"), "1") // the time of the killed holder is over
	next := help.Await(t, heir)
	check.Nil(t, "Release", next.Release(t.Context()))
	wantAlert(t, registry, "RedlatchSuccessLow")
}

// wantAlert has promtool judge, by the project's rules, what comes of the counters of acquisitions if
// each minute is like what was counted.
func wantAlert(t *testing.T, registry *prometheus.Registry, alert string) {
	t.Helper()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("no promtool (Debian package prometheus): no alert was asked for")
		return
	}
	families := check.Value(registry.Gather()).OK(t)
	rules := check.Value(filepath.Abs("../../observability/redlatch.rules.yml")).OK(t)
	var b strings.Builder
	fmt.Fprintf(&b, "rule_files: [%q]\nevaluation_interval: 1m\ntests:\n- interval: 1m\n  input_series:\n", rules)
	for _, family := range families {
		if family.GetName() != "redlatch_acquire_duration_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := []string{`job="billing"`, `instance="a:1"`}
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			fmt.Fprintf(&b, "  - series: '%s_count{%s}'\n    values: '0+%dx30'\n",
				family.GetName(), strings.Join(labels, ","), m.GetHistogram().GetSampleCount())
		}
	}
	fmt.Fprintf(&b, `  promql_expr_test:
  - expr: 'count by (alertname) (ALERTS{alertname="%s",alertstate="firing",kind="mutex",job="billing"})'
    eval_time: 15m
    exp_samples: [{labels: '{alertname="%s"}', value: 1}]
`, alert, alert)
	file := filepath.Join(t.TempDir(), "test.yml")
	check.OK(t, "WriteFile", os.WriteFile(file, []byte(b.String()), 0o600))
	if out, err := exec.Command(promtool, "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%s does not fire: %v\n%s\n%s", alert, err, out, b.String())
	}
}
