package cli

import (
	"fmt"
	"time"

	"github.com/redlatch/redlatch"
)

// lockJSON is one name as `ls --json` and `inspect --json` print it. reportHelp documents it.
type lockJSON struct {
	Name        string       `json:"name"`
	Key         string       `json:"key"`
	Kind        string       `json:"kind"`
	RedisType   string       `json:"redis_type,omitempty"`
	Size        int64        `json:"size"`
	Token       int64        `json:"token"`
	RemainingMS *int64       `json:"remaining_ms"`
	Holders     []holderJSON `json:"holders"`
	Waiters     []waiterJSON `json:"waiters"`
}

type holderJSON struct {
	waiterJSON
	Slot        *int   `json:"slot,omitempty"`
	Token       int64  `json:"token"`
	RemainingMS *int64 `json:"remaining_ms"`
	Resting     bool   `json:"resting"`
	Foreign     bool   `json:"foreign"`
}

type waiterJSON struct {
	Owner   string     `json:"owner"`
	Mode    string     `json:"mode,omitempty"`
	Permits int64      `json:"permits,omitempty"`
	Value   string     `json:"value,omitempty"`
	EntryOf string     `json:"entry_of,omitempty"`
	Since   *time.Time `json:"since"`
	Client  string     `json:"client"`
	Host    string     `json:"host"`
	PID     int        `json:"pid"`
	Program string     `json:"program"`
}

const reportHelp = `With --json each name is one object on one line, the same for ls and inspect:

  name          of the lock
  key           that holds it in Redis
  kind          mutex, reentrant, rwmutex, semaphore, slotpool, election or job; "" if it is not in use, or no lock
  redis_type    of a key that is no lock, such as list; else left out
  size          permits of a semaphore, slots of a pool; else 0
  token         last fencing token; 0 if none is known
  remaining_ms  until the last holder's lease ends; null if never
  holders       list, empty if the lock is free:
    owner         of the acquisition
    mode          read or write; rwmutex alone, and so on: what does not apply is left out
    permits       semaphore
    slot          slotpool, from 0 on
    value         election: of the leader
    entry_of      reentrant: the owner who entered
    since         when it acquired the lock, by the server's clock; null if unknown
    client        id of the client in Redis; "" for a foreign holder
    host, pid, program   of the process; "" and 0 if it crashed, is cut off from Redis, or has only just begun
    token         its fencing token
    remaining_ms  until its lease ends; null if never
    resting       true if it is gone and its place is kept free for remaining_ms: a slot, the window of a job
    foreign       true if the key was written by another library, or by hand
  waiters       list, first come first, with owner, mode, permits, value, entry_of, since (when it came), client, host,
                pid and program`

func newLockJSON(info redlatch.LockInfo) lockJSON {
	out := lockJSON{
		Name: info.Name, Key: info.Key, Kind: info.Kind, RedisType: info.RedisType, Size: info.Size, Token: info.Token,
		RemainingMS: millis(info.Remaining),
		Holders:     make([]holderJSON, len(info.Holders)), Waiters: make([]waiterJSON, len(info.Waiters)), // lists even if empty
	}
	for i, h := range info.Holders {
		shared := waiterJSON{
			h.Owner, h.Mode, h.Permits, h.Value, h.EntryOf, instant(h.Since), h.Client, h.Process.Host, h.Process.PID, h.Process.Program,
		}
		var slot *int
		if info.Kind == "slotpool" {
			slot = &h.Slot
		}
		out.Holders[i] = holderJSON{shared, slot, h.Token, millis(h.Remaining), h.Resting, h.Foreign}
	}
	for i, w := range info.Waiters {
		out.Waiters[i] = waiterJSON{
			w.Owner, w.Mode, w.Permits, w.Value, w.EntryOf, instant(w.Since), w.Client, w.Process.Host, w.Process.PID, w.Process.Program,
		}
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
	var s string
	switch n := len(info.Holders); n {
	case 0:
		s = "nobody holds it"
	case 1:
		s = "held by " + holderFor(info.Holders[0])
	default:
		s = fmt.Sprintf("held by %s and %d more", holderFor(info.Holders[0]), n-1)
	}
	if n := len(info.Waiters); n > 0 {
		s += fmt.Sprintf(", %d waiting", n)
	}
	return s
}

// holderFor is a holder in words, with how long it has been there.
func holderFor(h redlatch.Holder) string { return lasting(holder(h), h.Since) }

// waiterFor is a waiter in words, with how long it has been there.
func waiterFor(w redlatch.Waiter) string { return lasting(process(w.Process, w.Client), w.Since) }

func lasting(text string, since time.Time) string {
	if since.IsZero() {
		return text
	}
	return text + " for " + age(since)
}

// holder is what is known about the process that holds a lock.
func holder(h redlatch.Holder) string {
	switch {
	case h.Resting && h.Owner == "window":
		return "a run that is over, whose window is not"
	case h.Resting:
		return "a client that vanished, whose place rests"
	case h.Foreign:
		return fmt.Sprintf("a foreign client (owner %.40q)", h.Owner)
	}
	return process(h.Process, h.Client)
}

// process is what is known about a process, or else about its client.
func process(p redlatch.Process, client string) string {
	switch {
	case p.Host == "" && client == "":
		return "a client that is gone, cut off or just starting"
	case p.Host == "":
		return fmt.Sprintf("a client that is gone, cut off or just starting (id %s)", plain(client))
	}
	return fmt.Sprintf("%s (pid %d on %s)", plain(p.Program), p.PID, plain(p.Host))
}

// age is how long ago that was, by the clocks of two machines.
func age(since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return span(max(0, time.Since(since)))
}

// expiry is a remaining time in words.
func expiry(d time.Duration) string {
	if d < 0 {
		return "never"
	}
	return span(d)
}
