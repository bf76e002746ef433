package notes

import (
	"encoding/json"
	"maps"
	"strings"
)

// Note is what a client says about one acquisition.
type Note struct {
	Name   string            `json:"name,omitempty"`   // of the lock; only of waiters, up to Holds
	Kind   string            `json:"kind,omitempty"`   // of the lock
	Since  int64             `json:"since,omitempty"`  // when its wait began, in ms by the client's clock
	Holds  []Held            `json:"holds,omitempty"`  // the leases under whose context it waits
	Labels map[string]string `json:"labels,omitempty"` // that the program set for this acquisition

	// Kept is when the client began to only keep the lock, in ms by its clock; 0 if the program is
	// inside.
	Kept int64 `json:"kept,omitempty"`

	// Callers is how many goroutines of its client a waiter stands in line for; 0 for itself alone.
	Callers int `json:"callers,omitempty"`
}

// Held is a lease under whose context an acquisition waits.
type Held struct {
	Name  string `json:"name"`
	Kind  string `json:"kind"`
	Owner string `json:"owner"`
	Token int64  `json:"token"`
}

// String returns the note as it is in Redis: a letter, and JSON. The letter is w for a waiter that
// holds leases, else l, so that a script finds such waiters without reading the JSON.
func (n Note) String() string {
	letter := "l"
	if len(n.Holds) > 0 {
		letter = "w"
	}
	text, _ := json.Marshal(n) // plain fields
	return letter + string(text)
}

// Parse reads what String wrote. It returns false if there is no note in the text.
func Parse(text string) (n Note, ok bool) {
	text, labels := strings.CutPrefix(text, "l")
	text, waits := strings.CutPrefix(text, "w")
	if labels == waits || json.Unmarshal([]byte(text), &n) != nil {
		return Note{}, false
	}
	return n, true
}

// Merged returns the labels of both. If both have a key, the label of over wins. It returns nil if
// there are none.
func Merged(base, over map[string]string) map[string]string {
	if len(base)+len(over) == 0 {
		return nil
	}
	all := make(map[string]string, len(base)+len(over))
	maps.Copy(all, base)
	maps.Copy(all, over)
	return all
}
