package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/fleet"
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
func text(err error) string { return redacted(fleet.ErrorText(err)) }

// oneLine is s on one line, without passwords.
func oneLine(s string) string { return redacted(fleet.OneLine(s)) }

// told is an error of which the user has been told before, in words, and what is left to say of it.
type told struct {
	error
	left string
}

func (t *told) Unwrap() error { return t.error }

// inWords returns what is new in an error to a reader of the lines before it.
func inWords(err error) string {
	if t := (*told)(nil); errors.As(err, &t) {
		return t.left
	}
	return text(err)
}

// secrets matches the parts of a text that are passwords: what stands before the last @ of a Redis
// URL, and the parameter for Sentinel's own.
var secrets = regexp.MustCompile(`(\b(?:rediss?(?:\+[a-z]+)?|unix)://)[^\s"'` + "`" + `]*(@)|(\bsentinel_password=)[^&\s"'` + "`" + `]*`)

// redacted returns text without passwords.
func redacted(text string) string {
	return secrets.ReplaceAllStringFunc(text, func(part string) string {
		if strings.Contains(strings.ToLower(part), "user:password@") { // a URL that says how one looks
			return part
		}
		return secrets.ReplaceAllString(part, "${1}${3}...${2}")
	})
}
