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
	Size        int64        `json:"size"`
	Token       int64        `json:"token"`
	RemainingMS *int64       `json:"remaining_ms"`
	Holders     []holderJSON `json:"holders"`
	Waiters     []partyJSON  `json:"waiters"`
}

type holderJSON struct {
	partyJSON
	Token       int64  `json:"token"`
	RemainingMS *int64 `json:"remaining_ms"`
	Resting     bool   `json:"resting"`
	Foreign     bool   `json:"foreign"`
}

type partyJSON struct {
	Owner   string     `json:"owner"`
	Detail  string     `json:"detail"`
	Since   *time.Time `json:"since"`
	Client  string     `json:"client"`
	Host    string     `json:"host"`
	PID     int        `json:"pid"`
	Program string     `json:"program"`
}

const reportHelp = `With --json each name is one object on one line, the same for ls and inspect:

  name          of the lock
  key           that holds it in Redis
  kind          mutex, reentrant, rwmutex, semaphore, slotpool, election or once; "" if nobody holds it;
                "unknown (list)" if the key is a list, say, which is no lock
  size          permits of a semaphore, slots of a pool; else 0
  token         last fencing token; 0 if none is known
  remaining_ms  until the last holder's lease ends; null if never
  holders       list, empty if the lock is free:
    owner         of the acquisition
    detail        r or w of a rwmutex, the number of permits, the slot, the value of a leader, the owner of a reentrant
    since         when it acquired the lock, by the server's clock; null if unknown
    client        id of the client in Redis; "" for a foreign holder
    host, pid, program   of the process; "" and 0 if it crashed, is cut off from Redis, or has only just begun
    token         its fencing token
    remaining_ms  until its lease ends; null if never
    resting       true if it is gone and its place is kept free for remaining_ms: a slot, the window of a job, a minimal hold
    foreign       true if another library, or nobody's, wrote the key
  waiters       list, first come first, with owner, detail, since (when it came), client, host, pid and program`

func newLockJSON(info redlatch.Info) lockJSON {
	out := lockJSON{
		Name: info.Name, Key: info.Key, Kind: info.Kind, Size: info.Size, Token: info.Token, RemainingMS: millis(info.Remaining),
		Holders: make([]holderJSON, len(info.Holders)), Waiters: make([]partyJSON, len(info.Waiters)), // lists even if empty
	}
	for i, p := range info.Holders {
		out.Holders[i] = holderJSON{newPartyJSON(p), p.Token, millis(p.Remaining), p.Resting, p.Foreign}
	}
	for i, p := range info.Waiters {
		out.Waiters[i] = newPartyJSON(p)
	}
	return out
}

func newPartyJSON(p redlatch.Party) partyJSON {
	out := partyJSON{Owner: p.Owner, Detail: p.Detail, Client: p.Client, Host: p.Host, PID: p.PID, Program: p.Program}
	if !p.Since.IsZero() {
		since := p.Since.UTC().Truncate(time.Millisecond)
		out.Since = &since
	}
	return out
}

func millis(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

// summary is a lock in one line.
func summary(info redlatch.Info) string {
	var s string
	switch n := len(info.Holders); n {
	case 0:
		s = "nobody holds it"
	case 1:
		s = "held by " + who(info.Holders[0])
	default:
		s = fmt.Sprintf("held by %s and %d more", who(info.Holders[0]), n-1)
	}
	if n := len(info.Waiters); n > 0 {
		s += fmt.Sprintf(", %d waiting", n)
	}
	return s
}

// who is a party in words, with how long it has been there.
func who(p redlatch.Party) string {
	if p.Since.IsZero() || p.Resting {
		return process(p)
	}
	return process(p) + " for " + since(p)
}

// process is what is known about the process behind a party.
func process(p redlatch.Party) string {
	switch {
	case p.Resting && p.Owner == "window":
		return "a run that is over, whose window is not"
	case p.Resting:
		client := "a client"
		if p.Host != "" {
			client = program(p)
		}
		return fmt.Sprintf("%s, which is gone; its place is kept for another %s", client, expiry(p.Remaining))
	case p.Foreign:
		return fmt.Sprintf("a foreign client (owner %.40q)", p.Owner)
	case p.Host == "":
		return fmt.Sprintf("a client that is gone, cut off or just starting (id %s)", plain(p.Client))
	}
	return program(p)
}

// program is a process that has a record.
func program(p redlatch.Party) string {
	return fmt.Sprintf("%s (pid %d on %s)", plain(p.Program), p.PID, plain(p.Host))
}

// since is how long a party has been there, by the clocks of two machines.
func since(p redlatch.Party) string {
	if p.Since.IsZero() {
		return "-"
	}
	return span(max(0, time.Since(p.Since)))
}

// expiry is a remaining time in words.
func expiry(d time.Duration) string {
	if d < 0 {
		return "never"
	}
	return span(d)
}
