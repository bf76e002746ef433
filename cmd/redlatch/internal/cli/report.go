package cli

import (
	"fmt"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/fleet"
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

func newLockJSON(info redlatch.LockInfo) lockJSON {
	out := lockJSON{
		Name: info.Name, Key: info.Key, Kind: info.Kind, RedisType: info.RedisType, Size: info.Size, Token: info.Token,
		RemainingMS: millis(info.Remaining),
		Holders:     make([]holderJSON, len(info.Holders)), Waiters: make([]waiterJSON, len(info.Waiters)), // lists even if empty
	}
	if info.Kind == "countdown" {
		out.Count = &info.Count
	}
	if f := info.Forced; f != nil {
		out.Forced = &forcedJSON{instant(f.At), f.Reason, f.Owner, processJSON(f.By), processJSON(f.From)}
	}
	for i, h := range info.Holders {
		out.Holders[i] = holderJSON{newWaiterJSON(redlatch.Waiter{
			Owner: h.Owner, Mode: h.Mode, Permits: h.Permits, Value: h.Value, EntryOf: h.EntryOf, Since: h.Since, LastSeen: h.LastSeen, Dead: h.Dead,
			Client: h.Client, Process: h.Process, Labels: h.Labels,
		}), nil, h.Token, millis(h.Remaining), h.Resting, h.Foreign, h.Detached}
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

// instant is a time in ms of UTC; nil if it is unknown.
func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Millisecond)
	return &t
}

func millis(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

// summary is a lock in one line.
func summary(info redlatch.LockInfo) string {
	l := fleet.NewLock(info, time.Time{})
	var s string
	switch n := len(info.Holders); {
	case l.ToGo() != "":
		s = l.ToGo()
	case n == 0:
		s = "nobody holds it"
	case n == 1:
		s = "held by " + fleet.HolderLine(info.Holders[0], info.At)
	default:
		s = fmt.Sprintf("held by %s and %d more", fleet.HolderLine(info.Holders[0], info.At), n-1)
	}
	if l.Waiting > 0 {
		s += fmt.Sprintf(", %s waiting", l.WaitingText())
	}
	return s
}

// noLock reports whether the key is in use for something else.
func noLock(info redlatch.LockInfo) bool { return info.RedisType != "" }
