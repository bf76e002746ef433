package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Finding is the result of one check.
type Finding struct {
	Check   string `json:"check"`   // such as "exclusion"
	Promise string `json:"promise"` // in words
	Looked  int    `json:"looked"`  // at how many records
	Bad     int    `json:"bad"`
	First   string `json:"first,omitempty"`   // the first of them, in words
	At      int64  `json:"at,omitempty"`      // when that was
	Name    string `json:"name,omitempty"`    // of the lock
	Unknown string `json:"unknown,omitempty"` // why the records do not show it

	Excused   int            `json:"excused,omitempty"`       // overlaps at a time without this promise
	ExcusedBy map[string]int `json:"excused_by,omitempty"`    // of them, by the fault that broke it
	Excuses   []Excuse       `json:"first_excused,omitempty"` // the first of them, in the order of time
}

// Excuse is an overlap within a TTL after a fault that breaks the promise.
type Excuse struct {
	At     int64         `json:"at"`    // when it began
	Name   string        `json:"name"`  // of the lock
	Fault  string        `json:"fault"` // that breaks the promise
	Struck int64         `json:"struck"`
	Lasted time.Duration `json:"lasted_ns"`
	Who    string        `json:"who"` // the two, in words
}

// told is how many excuses a finding keeps.
const told = 100

// bad notes something that must not happen. The finding describes the earliest.
func (f *Finding) bad(at int64, name, format string, args ...any) {
	f.Bad++
	if f.Bad == 1 || at < f.At {
		f.At, f.Name, f.First = at, name, fmt.Sprintf(format, args...)
	}
}

// unknown notes why the records do not show it. The first reason counts.
func (f *Finding) unknown(format string, args ...any) {
	if f.Unknown == "" {
		f.Unknown = fmt.Sprintf(format, args...)
	}
}

// excuse notes an overlap while the promise did not hold.
func (f *Finding) excuse(e Excuse) {
	if f.Excused++; f.ExcusedBy == nil {
		f.ExcusedBy = make(map[string]int)
	}
	f.ExcusedBy[e.Fault]++
	f.Excuses = append(f.Excuses, e)
}

// arrange puts the excuses in the order of time, and keeps the first.
func (f *Finding) arrange() {
	slices.SortFunc(f.Excuses, func(a, b Excuse) int { return cmp.Compare(a.At, b.At) })
	f.Excuses = f.Excuses[:min(len(f.Excuses), told)]
}
