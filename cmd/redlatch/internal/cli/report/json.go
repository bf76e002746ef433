// Package report prints locks for the commands: as tables, pages and sentences in the words of
// package fleet, and as JSON.
package report

import (
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
)

// lockJSON is one name as `ls --json` and `inspect --json` print it. help/report.txt documents it.
type lockJSON struct {
	Name        string       `json:"name"`
	Key         string       `json:"key"`
	Kind        string       `json:"kind"`
	RedisType   string       `json:"redis_type,omitempty"`
	Size        int64        `json:"size"`
	Count       *int64       `json:"count,omitempty"`
	Token       int64        `json:"token"`
	RemainingMS *int64       `json:"remaining_ms"`
	Holders     []holderJSON `json:"holders"`
	Waiters     []waiterJSON `json:"waiters"`
	Forced      *forcedJSON  `json:"forced,omitempty"`
	Doubt       string       `json:"doubt,omitempty"`
}

type forcedJSON struct {
	At     *time.Time  `json:"at"`
	Reason string      `json:"reason"`
	Owner  string      `json:"owner"`
	By     processJSON `json:"by"`
	From   processJSON `json:"from"`
}

type processJSON struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Program string `json:"program"`
}

// clientJSON is a client and its process.
type clientJSON struct {
	Client string `json:"client"`
	processJSON
}

type holderJSON struct {
	waiterJSON
	Slot        *int   `json:"slot,omitempty"`
	Token       int64  `json:"token"`
	RemainingMS *int64 `json:"remaining_ms"`
	Resting     bool   `json:"resting"`
	Foreign     bool   `json:"foreign"`
	Detached    bool   `json:"detached"`

	Kept *time.Time `json:"kept_since,omitempty"`
}

type waiterJSON struct {
	Owner   string     `json:"owner"`
	Mode    string     `json:"mode,omitempty"`
	Permits int64      `json:"permits,omitempty"`
	Value   string     `json:"value,omitempty"`
	EntryOf string     `json:"entry_of,omitempty"`
	Since   *time.Time `json:"since"`
	Seen    *time.Time `json:"last_seen"`
	Dead    bool       `json:"dead"`
	Callers int        `json:"callers,omitempty"`
	clientJSON

	Labels map[string]string `json:"labels,omitempty"`
	Holds  []heldJSON        `json:"holds,omitempty"`
}

type heldJSON struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Owner string `json:"owner"`
	Token int64  `json:"token"`
}

// LockJSON returns a lock as `ls --json` and `inspect --json` print it.
func LockJSON(info redlatch.LockInfo) any {
	out := lockJSON{
		Name: info.Name, Key: info.Key, Kind: info.Kind, RedisType: info.RedisType, Size: info.Size, Token: info.Token,
		RemainingMS: millis(info.Remaining),
		Holders:     make([]holderJSON, len(info.Holders)), Waiters: make([]waiterJSON, len(info.Waiters)), // lists even if empty
	}
	if info.Kind == "countdown" {
		out.Count = &info.Count
	}
	if info.Doubt != nil {
		out.Doubt = info.Doubt.Error()
	}
	if f := info.Forced; f != nil {
		out.Forced = &forcedJSON{instant(f.At), f.Reason, f.Owner, processJSON(f.By), processJSON(f.From)}
	}
	for i, h := range info.Holders {
		out.Holders[i] = holderJSON{newWaiterJSON(redlatch.Waiter{
			Owner: h.Owner, Mode: h.Mode, Permits: h.Permits, Value: h.Value, EntryOf: h.EntryOf, Since: h.Since, LastSeen: h.LastSeen, Dead: h.Dead,
			Client: h.Client, Process: h.Process, Labels: h.Labels,
		}), nil, h.Token, millis(h.Remaining), h.Resting, h.Foreign, h.Detached, instant(h.Kept)}
		if info.Kind == "slotpool" {
			out.Holders[i].Slot = &h.Slot
		}
	}
	for i, w := range info.Waiters {
		out.Waiters[i] = newWaiterJSON(w)
	}
	return out
}

func newWaiterJSON(w redlatch.Waiter) waiterJSON {
	out := waiterJSON{
		w.Owner, w.Mode, w.Permits, w.Value, w.EntryOf, instant(w.Since), instant(w.LastSeen), w.Dead, w.Callers,
		clientJSON{w.Client, processJSON(w.Process)},
		w.Labels, nil,
	}
	for _, h := range w.Holds {
		out.Holds = append(out.Holds, heldJSON(h))
	}
	return out
}

// instant returns a time in UTC, cut to milliseconds, or nil if it is unknown or absurd.
func instant(t time.Time) *time.Time {
	// The note of another library's client may have a year that JSON cannot say.
	if t = t.UTC(); t.IsZero() || t.Year() < 0 || t.Year() > 9999 {
		return nil
	}
	return new(t.Truncate(time.Millisecond))
}

func millis(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	return new(d.Milliseconds())
}

// blockedJSON is a waiter of a deadlock.
type blockedJSON struct {
	Lock string `json:"lock"`
	Kind string `json:"kind"`
	waiterJSON
}

// DeadlockJSON returns a deadlock as `ls --deadlocks --json` prints it.
func DeadlockJSON(d redlatch.Deadlock) any {
	waiters := make([]blockedJSON, len(d.Waiters))
	for i, w := range d.Waiters {
		waiters[i] = blockedJSON{w.Lock, w.Kind, newWaiterJSON(w.Waiter)}
	}
	return map[string]any{"waiters": waiters}
}

// entryJSON is an entry as `log --json` prints it. help/log.txt documents it.
type entryJSON struct {
	Time  time.Time `json:"time"`
	What  string    `json:"what"`
	Name  string    `json:"name,omitempty"`
	Kind  string    `json:"kind,omitempty"`
	Owner string    `json:"owner,omitempty"`
	Token int64     `json:"token,omitempty"`
	clientJSON
	Labels      map[string]string `json:"labels,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Text        string            `json:"text,omitempty"`
	Value       string            `json:"value,omitempty"`
	From        *clientJSON       `json:"from,omitempty"`
	WaitedMS    int64             `json:"waited_ms,omitempty"`
	HeldMS      int64             `json:"held_ms,omitempty"`
	RemainingMS int64             `json:"remaining_ms,omitempty"`
	Dropped     int               `json:"dropped,omitempty"`
}

// EntryJSON returns an entry of the journal as `log --json` prints it.
func EntryJSON(e redlatch.JournalEntry) any {
	out := entryJSON{
		Time: e.At.UTC().Truncate(time.Millisecond), What: string(e.Type), Name: e.Name, Kind: e.Kind, Owner: e.Owner, Token: e.Token,
		clientJSON: clientJSON{e.Client, processJSON(e.Process)}, Labels: e.Labels,
		Reason: string(e.Reason), Text: talk.Redacted(e.Text), Value: e.Value,
		WaitedMS: e.Waited.Milliseconds(), HeldMS: e.Held.Milliseconds(), RemainingMS: e.Remaining.Milliseconds(), Dropped: e.Dropped,
	}
	if e.From.Owner != "" {
		out.From = &clientJSON{e.From.Client, processJSON(e.From.Process)}
	}
	return out
}
