package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/redlatch/redlatch"
)

// event is one line that `redlatch run --json` writes to stderr, as help/run.txt has it. Fields that
// do not apply are left out.
type event struct {
	Time        time.Time `json:"time"`
	Event       string    `json:"event"`
	Name        string    `json:"name,omitempty"`
	Owner       string    `json:"owner,omitempty"`
	Token       int64     `json:"token,omitempty"`
	WaitedMS    int64     `json:"waited_ms,omitempty"`
	HeldForMS   int64     `json:"held_for_ms,omitempty"`
	BeforeMS    int64     `json:"before_ms,omitempty"`
	RemainingMS int64     `json:"remaining_ms,omitempty"`
	Outcome     string    `json:"outcome,omitempty"`
	Reason      string    `json:"reason,omitempty"`
	Place       int       `json:"place,omitempty"`
	PID         int       `json:"pid,omitempty"`
	Command     []string  `json:"command,omitempty"`
	Signal      string    `json:"signal,omitempty"`
	Code        *int      `json:"code,omitempty"`
	Message     string    `json:"message,omitempty"`
	Error       string    `json:"error,omitempty"`
	Hint        string    `json:"hint,omitempty"`
}

// leaseEvent is an event of the library.
func leaseEvent(e redlatch.Event) event {
	out := event{
		Event: string(e.Type), Name: e.Name, Owner: e.Owner, Token: e.Token,
		Outcome: string(e.Outcome), Reason: string(e.Reason),
		WaitedMS: e.Waited.Milliseconds(), HeldForMS: e.HeldFor.Milliseconds(), BeforeMS: e.Before.Milliseconds(), RemainingMS: e.Remaining.Milliseconds(),
	}
	if e.Err != nil {
		out.Error = text(e.Err)
	}
	return out
}

// emit writes an event, if --json asks for events.
func (a *app) emit(e event) {
	if !a.events {
		return
	}
	e.Time = time.Now().UTC().Truncate(time.Millisecond)
	line, _ := json.Marshal(e) // cannot fail: plain fields
	_, _ = a.talk.Write(append(line, '\n'))
}

// backlog is a writer that never blocks, so that a reader of stderr that falls asleep costs lines
// and not the lease. Each write is one line; what does not fit is dropped.
type backlog struct {
	lines chan []byte
	done  chan struct{}
}

func newBacklog(w io.Writer) *backlog {
	b := &backlog{lines: make(chan []byte, 256), done: make(chan struct{})}
	go func() {
		defer close(b.done)
		for line := range b.lines {
			if line == nil {
				return
			}
			_, _ = w.Write(line) // whoever closed stderr does not want to know
		}
	}()
	return b
}

func (b *backlog) Write(line []byte) (int, error) {
	select {
	case b.lines <- bytes.Clone(line):
	default:
	}
	return len(line), nil
}

// drain returns when all is written, or when patience is at its end. Later writes are dropped.
func (b *backlog) drain(patience time.Duration) {
	timeout := time.After(patience)
	select {
	case b.lines <- nil:
	case <-timeout:
		return
	}
	select {
	case <-b.done:
	case <-timeout:
	}
}

// talkInBackground makes all talk from here on go through a backlog.
func (a *app) talkInBackground() {
	b := newBacklog(a.stderr)
	a.talk, a.flush = b, func() { b.drain(time.Second) }
}
