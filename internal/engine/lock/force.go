package lock

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Force is what Redis remembers of a lock that was taken by force, besides the owner.
type Force struct {
	By     Process   `json:"by"`   // the process that took it
	From   Process   `json:"from"` // the process that lost it
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"-"` // by the server's clock
}

// Process is where a client runs.
type Process struct {
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Program string `json:"program,omitempty"`
}

// String returns the note without its time, which a script adds.
func (f Force) String() string {
	text, _ := json.Marshal(f) // plain fields
	return string(text)
}

// Dated returns the note as Redis keeps it, with its time.
func (f Force) Dated() string { return fmt.Sprintf("%d\t%s", f.At.UnixMicro(), f) }

// ParseForce reads a note. It returns nil if the text is not a note.
func ParseForce(note string) *Force {
	at, text, ok := script.ParseNote(note)
	f := &Force{At: time.UnixMicro(at)}
	if !ok || json.Unmarshal([]byte(text), f) != nil {
		return nil
	}
	return f
}
