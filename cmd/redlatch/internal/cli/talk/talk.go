// Package talk prints answers on stdout, and messages on stderr: as lines for people or as events
// for programs. All commands print through [Streams].
package talk

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/internal/fleet"
)

// Streams has the streams of one run of the program, and writes to them. The rules:
//
//   - stdout is the answer to what was asked, and nothing else; stderr is talk.
//   - Talk begins with "redlatch: ", is in lower case and has no full stop. A second line that
//     begins with "redlatch: hint: " says what to do.
//   - Once a command waits for a lock or holds it, talk begins with the time.
//   - A name is printed in %q, a command to type in `backquotes`. What comes from Redis is quoted
//     if a terminal could take it for a command. No password is ever printed.
//   - With --json an answer is one JSON object a line, as `redlatch help inspect` describes. So is
//     the talk of `redlatch run`.
type Streams struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Events bool // talk is events, one JSON object a line
	JSON   bool // answers are JSON
	Quiet  bool // no talk of a lock that is taken

	behind *backlog    // in front of Stderr, or nil
	dated  atomic.Bool // talk has the time
}

// Date makes all later talk begin with the time: the command has begun to wait or to hold.
func (s *Streams) Date() { s.dated.Store(true) }

// InBackground sends all later talk through a backlog.
func (s *Streams) InBackground() { s.behind = newBacklog(s.Stderr) }

// Flush returns when all talk is written, or after a second.
func (s *Streams) Flush() {
	if s.behind != nil {
		s.behind.drain(time.Second)
	}
}

// err returns the writer for talk.
func (s *Streams) err() io.Writer {
	if s.behind != nil {
		return s.behind
	}
	return s.Stderr
}

// Say tells the user one thing.
func (s *Streams) Say(format string, args ...any) {
	now := ""
	if s.dated.Load() {
		now = time.Now().Format(time.DateTime) + " "
	}
	s.line(now, fmt.Sprintf(format, args...))
}

// line tells the user one thing, with the time in front unless that is "".
func (s *Streams) line(now, message string) {
	message = Redacted(fleet.OneLine(message))
	if s.Events {
		s.Emit(Event{Event: "note", Message: message})
		return
	}
	fmt.Fprintf(s.err(), "redlatch: %s%s\n", now, message)
}

// Hint tells the user what to do about what was said.
func (s *Streams) Hint(format string, args ...any) { s.line("", fmt.Sprintf("hint: "+format, args...)) }

// Fail tells the user why the program ends.
func (s *Streams) Fail(e *exit.Error) {
	switch {
	case e.Err == nil:
	case s.Events:
		s.Emit(Event{Event: "error", Error: Text(e.Err), Hint: e.Hint, Code: &e.Code})
	default:
		s.Say("%s", InWords(e))
		if e.Hint != "" {
			s.Hint("%s", e.Hint)
		}
	}
}

// Answer prints text to stdout.
func (s *Streams) Answer(format string, args ...any) error {
	_, err := fmt.Fprintf(s.Stdout, format, args...)
	return err
}

// AnswerJSON prints v to stdout, on one line.
func (s *Streams) AnswerJSON(v any) error {
	line, err := jsonLine(v)
	return cmp.Or(err, s.Answer("%s", line))
}

// AnswerAs prints v to stdout as JSON if --json asks for that, or else the text.
func (s *Streams) AnswerAs(v any, text string) error {
	if s.JSON {
		return s.AnswerJSON(v)
	}
	return s.Answer("%s", text)
}

// jsonLine returns v as a line of JSON. Characters that are invisible, or that a terminal could
// take for a command, are escaped. They can only be within strings, where JSON allows that.
func jsonLine(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	line := make([]byte, 0, len(text)+1)
	for _, r := range string(text) {
		switch {
		case strconv.IsPrint(r):
			line = utf8.AppendRune(line, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			line = fmt.Appendf(line, `\u%04x\u%04x`, high, low)
		default:
			line = fmt.Appendf(line, `\u%04x`, r)
		}
	}
	return append(line, '\n'), nil
}

// Text returns an error on one line, without passwords and without the library's prefix, which Say
// adds, and in this program's words.
func Text(err error) string { return plain.Replace(Redacted(fleet.ErrorText(err))) }

// Unconnected is Text for an error that the reader already knows to be about the connection.
func Unconnected(err error) string { return strings.TrimPrefix(Text(err), "connect to Redis: ") }

// plain replaces the words of Go and of the library by those of this program.
var plain = strings.NewReplacer(
	"no answer from Redis: context deadline exceeded", "no answer from Redis in time", "context deadline exceeded", "no answer in time",
	": redlatch: ", ": ", "TakenError.Describe or ", "",
	"redlatchweb: ", "", "a text that Detach returned", "a text that `redlatch lock` printed",
	"LockOptions.MaxWaiters", "--max-waiters", "LockOptions.MaxWait", "--wait", "LockOptions.MaxHold", "--max-hold",
	"LockOptions.MinHold", "--min-hold", "LockOptions.TTL", "--ttl", "JobOptions.Window", "--window", "SlotOptions.Instance", "--instance",
	"SlotOptions.Quarantine", "--quarantine", "ForceOptions.Reason", "--reason",
	"Options.Labels are", "--label: there are", "Options.Labels", "--label", "Options.Prefix", "--prefix",
	"Options.Interval", "--interval", "Options.Patterns", "--pattern", "Options.Hosts", "--host",
)

// InWords returns an error without the parts that the lines before it have told the user.
func InWords(e *exit.Error) string { return cmp.Or(e.Left, Text(e.Err)) }
