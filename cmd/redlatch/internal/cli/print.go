package cli

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The rules of all that is printed:
//
//   - stdout is the answer to what was asked, and nothing else; stderr is talk.
//   - Talk begins with "redlatch: ", is in lower case and has no full stop. A second line that
//     begins with "redlatch: hint: " says what to do.
//   - From the moment on that a command waits for a lock or holds it, talk begins with the time.
//   - A name is printed in %q, a command to type in `backquotes`. What comes from Redis is quoted
//     if a terminal could take it for a command. No password is printed, ever.
//   - With --json an answer is one JSON object a line, as `redlatch inspect --help` describes, and
//     the talk of `redlatch run` is, too.

// say tells the user one thing.
func (a *app) say(format string, args ...any) {
	now := ""
	if a.dated.Load() {
		now = time.Now().Format(time.DateTime) + " "
	}
	a.line(now, fmt.Sprintf(format, args...))
}

// line tells the user one thing, with the time in front unless that is "".
func (a *app) line(now, message string) {
	message = oneLine(message)
	if a.events {
		a.emit(event{Event: "note", Message: message})
		return
	}
	fmt.Fprintf(a.talk, "redlatch: %s%s\n", now, message)
}

// chat is say for what --quiet leaves out.
func (a *app) chat(format string, args ...any) {
	if !a.quiet {
		a.say(format, args...)
	}
}

// hint tells the user what to do about what was said.
func (a *app) hint(format string, args ...any) { a.line("", fmt.Sprintf("hint: "+format, args...)) }

// fail tells the user why the program ends.
func (a *app) fail(f *failure) {
	switch {
	case f.err == nil:
	case a.events:
		a.emit(event{Event: "error", Error: text(f.err), Hint: f.hint, Code: &f.code})
	default:
		a.say("%s", inWords(f.err))
		if f.hint != "" {
			a.hint("%s", f.hint)
		}
	}
}

// answer prints text to stdout.
func (a *app) answer(format string, args ...any) error {
	_, err := fmt.Fprintf(a.stdout, format, args...)
	return err
}

// answerJSON prints v to stdout, on one line.
func (a *app) answerJSON(v any) error { return json.NewEncoder(a.stdout).Encode(v) }

// text is an error without the library's prefix, which say adds.
func text(err error) string { return oneLine(strings.TrimPrefix(err.Error(), "redlatch: ")) }

// oneLine is s on one line, without passwords.
func oneLine(s string) string { return redacted(strings.ReplaceAll(s, "\n", "; ")) }

// plain is s if it is harmless to print, and otherwise quoted: names, hosts and programs are what
// others wrote into Redis.
func plain(s string) string {
	if quoted := strconv.Quote(s); s == "" || quoted != `"`+s+`"` {
		return quoted
	}
	return s
}

// span is a duration as people say it, in its two largest units: 3d4h, 12m5s, 1.2s, 40ms.
func span(d time.Duration) string {
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
