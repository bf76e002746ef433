package talk

import (
	"time"

	"github.com/redlatch/redlatch"
)

// Event is one line that `redlatch run --json` writes to stderr. Its help documents it. Fields that
// do not apply are left out.
type Event struct {
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

// LeaseEvent converts an event of the library.
func LeaseEvent(e redlatch.Event) Event {
	out := Event{
		Event: string(e.Type), Name: e.Name, Owner: e.Owner, Token: e.Token,
		Outcome: string(e.Outcome), Reason: string(e.Reason),
		WaitedMS: e.Waited.Milliseconds(), HeldForMS: e.HeldFor.Milliseconds(), BeforeMS: e.Before.Milliseconds(), RemainingMS: e.Remaining.Milliseconds(),
	}
	if e.Err != nil {
		out.Error = Text(e.Err)
	}
	return out
}

// Tell tells the user one thing: as an event if --json asks for events, else in words.
func (s *Streams) Tell(e Event, format string, args ...any) {
	if s.Events {
		s.Emit(e)
		return
	}
	s.Say(format, args...)
}

// Emit writes an event, if --json asks for events.
func (s *Streams) Emit(e Event) {
	if !s.Events {
		return
	}
	e.Time = time.Now().UTC().Truncate(time.Millisecond)
	line, _ := jsonLine(e) // cannot fail: plain fields
	_, _ = s.err().Write(line)
}
