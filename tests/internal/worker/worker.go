package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// jobVariable makes this test binary a worker, with its job as JSON.
const jobVariable = "REDLATCH_TESTS_JOB"

// Job is what a worker process does: it locks one name and then answers questions.
type Job struct {
	URL, Name string
	Kind      int // of kindtest.Locks
	TTL       time.Duration
	Heartbeat time.Duration
	Writes    bool // its token to the key "value" when it is asked
	Leave     bool // it releases its lease when it is asked, and ends
	Detach    bool // it detaches its lease, and reports the text
}

// Report is what a worker writes, one line each: when its client is open, when it holds the lock,
// and whenever it is asked.
type Report struct {
	Client string // its id
	Owner  string // of its lease; "" while it waits
	Token  int64
	Held   bool
	Done   bool   // whether the lease's context is done
	Lost   bool   // with a LostError as its cause
	Text   string // of a lease that it detached

	// The result of a write, if the job writes.
	Stale   bool
	Failure string // "" if it passed
}

// Main does the job of this process and ends it, if a test started it as a worker.
func Main() {
	text := os.Getenv(jobVariable)
	if text == "" {
		return
	}
	if err := runJob(text); err != nil {
		log.Fatalf("worker: %v", err)
	}
	os.Exit(0)
}

// runJob is the worker's side. It ends at the end of its input.
func runJob(text string) error {
	var j Job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	ctx := context.Background()
	c, err := redlatch.Open(ctx, j.URL, redlatch.Options{Heartbeat: j.Heartbeat, Lock: redlatch.LockOptions{TTL: j.TTL}})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(Report{Client: c.ID()}); err != nil {
		return err
	}
	acquire := c.Mutex(j.Name).Lock
	if j.Kind > 0 {
		prefix := strings.TrimSuffix(j.Name, kindtest.Kinds()[j.Kind]) // its name ends in the kind
		acquire = kindtest.Locks(c, prefix)[j.Kind].Acquire
	}
	l, err := acquire(ctx)
	if err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	if j.Detach {
		return handOn(l, in, out)
	}
	if j.Leave {
		if err := out.Encode(Report{Owner: l.Owner(), Token: l.Token(), Held: true}); err != nil {
			return err
		}
		if _, err := in.ReadString('\n'); err != nil {
			return nil
		}
		return errors.Join(l.Release(ctx), c.Close())
	}
	if j.Writes {
		return writeLate(j.URL, l, in, out)
	}
	for {
		// The token first: that is what a write would carry.
		r := Report{Client: c.ID(), Owner: l.Owner(), Token: l.Token(), Held: l.Held(), Done: l.Context().Err() != nil}
		r.Lost = errors.As(context.Cause(l.Context()), new(*redlatch.LostError))
		if err := out.Encode(r); err != nil {
			return err
		}
		if _, err := in.ReadString('\n'); err != nil {
			return nil
		}
	}
}

// handOn detaches the lease and waits for the end of its input.
func handOn(l *redlatch.Lease, in io.Reader, out *json.Encoder) error {
	r := Report{Token: l.Token()}
	var err error
	if r.Text, err = l.Detach(context.Background()); err != nil {
		return err
	}
	if err := out.Encode(r); err != nil {
		return err
	}
	_, err = io.ReadAll(in)
	return err
}

// Worker is a process that does a job.
type Worker struct {
	t       testing.TB
	Process *os.Process
	input   io.Writer
	reports chan Report
	Client  string // its id
}

// Start runs a worker and returns when its client is open. It is killed with the test.
func Start(t testing.TB, j Job) *Worker {
	t.Helper()
	text := check.Value(json.Marshal(j)).OK(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), jobVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	input := check.Value(cmd.StdinPipe()).OK(t)
	output := check.Value(cmd.StdoutPipe()).OK(t)
	check.OK(t, "Start", cmd.Start())
	w := &Worker{t: t, Process: cmd.Process, input: input, reports: make(chan Report, 16)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for in := json.NewDecoder(output); ; {
			var r Report
			if in.Decode(&r) != nil {
				return
			}
			w.reports <- r
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // also ends a process that is suspended
		<-read
		_ = cmd.Wait()
	})
	w.Client = w.Next().Client
	return w
}

// Next returns the next report of the worker.
func (w *Worker) Next() Report {
	w.t.Helper()
	return help.Receive(w.t, w.reports, "a worker")
}

// Ask makes the worker look at its lease.
func (w *Worker) Ask() {
	w.t.Helper()
	check.OK(w.t, "Fprintln", check.ErrorOf(fmt.Fprintln(w.input, "and now?")))
}

// Resume makes a suspended worker go on.
func (w *Worker) Resume() { w.signal(syscall.SIGCONT) }

// Kill kills the worker, which leaves everything as it is.
func (w *Worker) Kill() { w.signal(syscall.SIGKILL) }

// Suspend stops the worker, and returns when it stands still. Its threads stop one by one: right
// after the signal, one of them may still be reading a grant that another process makes because of
// what the test does next.
func (w *Worker) Suspend() {
	w.t.Helper()
	w.signal(syscall.SIGSTOP)
	for {
		var status syscall.WaitStatus
		switch _, err := syscall.Wait4(w.Process.Pid, &status, syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case err != nil || !status.Stopped():
			w.t.Fatalf("the worker was to stop; its status is %#x, with error %v", status, err)
		default:
			return
		}
	}
}

func (w *Worker) signal(s syscall.Signal) {
	w.t.Helper()
	if err := w.Process.Signal(s); err != nil {
		w.t.Fatalf("%v: %v", s, err)
	}
}
