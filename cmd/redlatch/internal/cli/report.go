package cli

import (
	"fmt"
	"strconv"
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
	Seen    *time.Time `json:"last_seen"`
	Dead    bool       `json:"dead"`
	Client  string     `json:"client"`
	Host    string     `json:"host"`
	PID     int        `json:"pid"`
	Program string     `json:"program"`
}

const beliefHelp = `A waiter is believed dead if three of its heartbeats are missing, or if it does not listen for grants. A holder is if it used to
listen and does not now, or if its process has left no sign of life for three minutes; its lease counts all the same until it
expires. Either may be alive and cut off from Redis.

`

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
    last_seen     the last sign of life of its client, by the server's clock; null if unknown
    dead          true if the client is believed dead, or cut off from Redis
    client        id of the client in Redis; "" for a foreign holder
    host, pid, program   of the process; "" and 0 if it crashed, is cut off from Redis, or has only just begun
    token         its fencing token
    remaining_ms  until its lease ends; null if never
    resting       true if it is gone and its place is kept free for remaining_ms: a slot, the window of a job, a minimal hold
    foreign       true if the key was written by another library, or by hand
  waiters       list, first come first, with owner, mode, permits, value, entry_of, since (when it came), last_seen, dead,
                client, host, pid and program`

func newLockJSON(info redlatch.LockInfo) lockJSON {
	out := lockJSON{
		Name: info.Name, Key: info.Key, Kind: info.Kind, RedisType: info.RedisType, Size: info.Size, Token: info.Token,
		RemainingMS: millis(info.Remaining),
		Holders:     make([]holderJSON, len(info.Holders)), Waiters: make([]waiterJSON, len(info.Waiters)), // lists even if empty
	}
	for i, h := range info.Holders {
		shared := waiterJSON{
			h.Owner, h.Mode, h.Permits, h.Value, h.EntryOf, instant(h.Since), instant(h.LastSeen), h.Dead,
			h.Client, h.Process.Host, h.Process.PID, h.Process.Program,
		}
		var slot *int
		if info.Kind == "slotpool" {
			slot = &h.Slot
		}
		out.Holders[i] = holderJSON{shared, slot, h.Token, millis(h.Remaining), h.Resting, h.Foreign}
	}
	for i, w := range info.Waiters {
		out.Waiters[i] = waiterJSON{
			w.Owner, w.Mode, w.Permits, w.Value, w.EntryOf, instant(w.Since), instant(w.LastSeen), w.Dead,
			w.Client, w.Process.Host, w.Process.PID, w.Process.Program,
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
		s = "held by " + holderFor(info.Holders[0], info.At)
	default:
		s = fmt.Sprintf("held by %s and %d more", holderFor(info.Holders[0], info.At), n-1)
	}
	if n := len(info.Waiters); n > 0 {
		s += fmt.Sprintf(", %s waiting", waiting(info))
	}
	return s
}

// waiting is how many wait for a lock, and how many of them are dead.
func waiting(info redlatch.LockInfo) string {
	dead := 0
	for _, w := range info.Waiters {
		if w.Dead {
			dead++
		}
	}
	if dead == 0 {
		return strconv.Itoa(len(info.Waiters))
	}
	return fmt.Sprintf("%d (%d believed dead)", len(info.Waiters), dead)
}

// holderFor is a holder in words, with how long it has been there at that moment.
func holderFor(h redlatch.Holder, at time.Time) string {
	if h.Resting {
		return holder(h)
	}
	return lasting(holder(h), h.Since, at) + dying(h.Dead, h.LastSeen, at)
}

// waiterFor is a waiter in words, with how long it has been there at that moment.
func waiterFor(w redlatch.Waiter, at time.Time) string {
	return lasting(process(w.Process, w.Client), w.Since, at) + dying(w.Dead, w.LastSeen, at)
}

func lasting(text string, since, at time.Time) string {
	if since.IsZero() {
		return text
	}
	return text + " for " + age(since, at)
}

// dying says of a client that is believed dead when it was last heard of.
func dying(dead bool, seen, at time.Time) string {
	switch {
	case !dead:
		return ""
	case seen.IsZero():
		return ", believed dead"
	}
	return ", not heard of for " + age(seen, at) + ": believed dead"
}

// holder is what is known about the process that holds a lock.
func holder(h redlatch.Holder) string {
	switch {
	case h.Resting && h.Owner == "window":
		return "a run that is over, whose window is not"
	case h.Resting:
		client := "a client"
		if h.Process.Host != "" {
			client = program(h.Process)
		}
		return fmt.Sprintf("%s, which is gone; its place is kept for another %s", client, expiry(h.Remaining))
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
	return program(p)
}

// program is a process that has a record.
func program(p redlatch.Process) string {
	return fmt.Sprintf("%s (pid %d on %s)", plain(p.Program), p.PID, plain(p.Host))
}

// age is how long before that moment it was, both by the server's clock.
func age(since, at time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return span(max(0, at.Sub(since)))
}

// expiry is a remaining time in words.
func expiry(d time.Duration) string {
	if d < 0 {
		return "never"
	}
	return span(d)
}
