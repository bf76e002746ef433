package redlatch

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/protocol/script"
)

// rememberForce is how long Redis remembers a forced release.
const rememberForce = time.Hour

// ForceOptions say from which owner [Client.ForceRelease] or [Mutex.TakeByForce] takes a lock, and
// why. The zero value takes it from all.
type ForceOptions struct {
	// Owner is the one holder to take the lock from, as [Holder] tells it; for a [ReentrantMutex]
	// also the EntryOf of several entries. An owner is never used again, so a forced release that
	// names one can be repeated: it never hits a holder that came later. Default all holders.
	Owner string

	// Reason is told to the holder that loses the lock, and to operators that inspect the name
	// within an hour: up to 256 bytes of valid UTF-8 without control characters. Default none.
	Reason string

	// Announce tells waiters of another library if the lock is free then, as LockOptions.Announce
	// does at a release. Default none.
	Announce Announce
}

func (o ForceOptions) check() error {
	if err := (LockOptions{Announce: o.Announce}).checkNeighbours(); err != nil {
		return err
	}
	if o.Reason == "" {
		return nil
	}
	return printable("ForceOptions.Reason", o.Reason)
}

// Force is a forced release, by [Client.ForceRelease], [Mutex.TakeByForce] or the redlatch command.
// The holder finds it in its [LostError], and operators in [LockInfo] for an hour.
type Force struct {
	By     Process   // that took the lock
	At     time.Time // by the server's clock
	Reason string    // ForceOptions.Reason; "" if none was given
	Owner  string    // that lost the lock
	From   Process   // that lost the lock; zero if its client had no record
}

// String names the process that took the lock, the time and the reason.
func (f *Force) String() string {
	s := fmt.Sprintf("%v at %s", f.By, f.At.Local().Format(time.DateTime))
	if f.Reason != "" {
		s += fmt.Sprintf(": %q", f.Reason)
	}
	return s
}

// String is the program, its pid and its host.
func (p Process) String() string {
	if p == (Process{}) {
		return "an unknown process"
	}
	return fmt.Sprintf("%s (pid %d on %s)", p.Program, p.PID, p.Host)
}

// forceNote is what Redis remembers of a forced release, beside the owner and the time.
type forceNote struct {
	By     processNote `json:"by"`
	From   processNote `json:"from"`
	Reason string      `json:"reason,omitempty"`
}

type processNote struct {
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
}

// note returns what Redis is to remember of a forced release.
func (f *Force) note() string {
	text, _ := json.Marshal(forceNote{processNote(f.By), processNote(f.From), f.Reason}) // plain fields
	return string(text)
}

// parseForce reads a note about the owner that lost a lock; nil if it is none.
func parseForce(owner, note string) *Force {
	at, text, ok := script.ParseNote(note)
	var n forceNote
	if !ok || json.Unmarshal([]byte(text), &n) != nil {
		return nil
	}
	return &Force{By: Process(n.By), At: time.UnixMicro(at), Reason: n.Reason, Owner: owner, From: Process(n.From)}
}

// ending is why a lease is lost.
type ending struct {
	reason LossReason
	force  *Force // the forced release, if it is known
}

// cause returns the reason in words. The lease of a client that was closed matches [ErrClosed], and
// one that was held for too long [ErrMaxHold].
func (e ending) cause() error {
	if e.force != nil {
		return fmt.Errorf("%w by %v", causes[LossForced], e.force)
	}
	return causes[e.reason]
}

// whyGone returns why Redis said that the lease is not there, from the reply to an extend that said
// so. The caller holds l.mu.
func (l *Lease) whyGone(gone script.Gone) ending {
	force := parseForce(l.owner, gone.Note)
	if force == nil {
		force = l.latch.client.keeper.forced(l.owner)
	}
	switch {
	case force != nil, l.forced:
		return ending{LossForced, force}
	case !gone.Known, l.latch.client.now().Since(l.acquired) >= l.latch.client.options.FenceTTL/2:
		return ending{reason: LossGone} // its token may be forgotten by now
	case gone.Fenced:
		return ending{reason: LossDeleted}
	}
	return ending{reason: LossForgotten}
}
