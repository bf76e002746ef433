package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Visible returns a text of others, quoted if it has a character that cannot be seen, such as a
// space at an end, or that a terminal could take for a command.
func Visible(s string) string {
	if hides(s) || s != strings.TrimSpace(s) {
		return strconv.Quote(s)
	}
	return s
}

func hides(s string) bool {
	return !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !seen(r) })
}

// seen reports whether a character leaves a mark on a screen, or is a space. Some that Unicode
// calls letters do not, such as the Hangul fillers.
func seen(r rune) bool {
	return strconv.IsPrint(r) && r != '\u2800' && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// OneLine returns a text of others on one line, with a ? for each character that cannot be seen.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if seen(r) {
			return r
		}
		return '?'
	}, strings.ReplaceAll(s, "\n", "; "))
}

// ErrorText returns an error on one line, without the library's prefix.
func ErrorText(err error) string { return OneLine(strings.TrimPrefix(err.Error(), "redlatch: ")) }

// Span returns a duration as people say it, in its two largest units: 3d4h, 12m5s, 1.2s, 40ms.
func Span(d time.Duration) string {
	d = max(0, d)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// Ago returns how much time passed from since to at, both by the server's clock.
func Ago(at, since time.Time) string {
	if since.IsZero() {
		return none
	}
	return Span(at.Sub(since))
}

// none stands for what is not known, or does not apply.
const none = "-"

// Recently returns how long ago something was.
func Recently(ago time.Duration) string {
	if ago < time.Second {
		return "just now"
	}
	return Span(ago) + " ago"
}

// Stamp returns a time as text, in the time zone that it has.
func Stamp(t time.Time) string {
	if t.Location() == time.UTC {
		return t.Format(time.DateTime + " UTC")
	}
	return t.Format(time.DateTime)
}

// Count returns a number with commas between its thousands.
func Count(v any) string {
	s := fmt.Sprint(v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// LabelText returns labels in the order of their keys.
func LabelText(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		if hides(value) || strings.ContainsAny(value, ` =,;"`) {
			value = strconv.Quote(value)
		}
		all = append(all, Visible(key)+"="+value)
	}
	return strings.Join(all, " ")
}

// The columns of a list of locks, and what a page about one calls the same. docs/glossary.md says
// what each word means.
const (
	Name    = "name"
	Kind    = "kind"
	Holder  = "holder"
	Held    = "held for"
	Lease   = "lease"
	Token   = "token"
	Waiting = "waiting"
	Waited  = "longest wait"
)

// Columns are those that a list of locks has on every screen.
var Columns = []string{Name, Kind, Holder, Held, Waiting, Waited}
