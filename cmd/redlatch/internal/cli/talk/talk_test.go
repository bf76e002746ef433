package talk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/protocol/address"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

func TestBacklogNeverBlocks(t *testing.T) {
	t.Parallel()
	reader, writer := io.Pipe() // without a reader, every write to it blocks
	b := newBacklog(writer)
	for n := range 10 * cap(b.lines) {
		fmt.Fprintf(b, "line %d\n", n)
	}
	b.drain(time.Millisecond)
	reader.Close() // ends the write that blocks, and all that follow
	b.drain(time.Minute)
	fmt.Fprintln(b, "late")
	<-b.done
}

func TestBacklogDrainsWhatWasWritten(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := newBacklog(&out)
	fmt.Fprint(b, "one\n")
	fmt.Fprint(b, "two\n")
	b.drain(time.Minute)
	check.Equal(t, out.String(), "one\ntwo\n", "drained")
}

// TestJSONOnATerminal: what cannot be seen, or is a command to a terminal, is spelled out in all JSON,
// and a reader gets it back as it was.
func TestJSONOnATerminal(t *testing.T) {
	t.Parallel()
	const text = "größe 日本 \"<b>\" \x1b[2J \u009b2J \u007f \u202e \u200b \u2028 \U000e0041 \n"
	var out, errs bytes.Buffer
	s := Streams{Stdout: &out, Stderr: &errs, Events: true}
	check.OK(t, "AnswerJSON", s.AnswerJSON(map[string]string{"message": text}))
	s.Emit(Event{Message: text})
	for _, line := range []string{out.String(), errs.String()} {
		var got struct{ Message string }
		if err := json.Unmarshal([]byte(line), &got); err != nil || got.Message != text {
			t.Errorf("%s is read as %q, %v", line, got.Message, err)
		}
		for _, r := range strings.TrimSuffix(line, "\n") {
			check.That(t, strconv.IsPrint(r), "%q is written as it is in %s", r, line)
		}
		check.That(t, strings.Contains(line, "größe 日本"), "what can be seen is spelled out in %s", line)
	}
}

// TestFlagsForOptions: an error of the library names what a user of the program can give.
func TestFlagsForOptions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"redlatch: invalid: Options.Labels: the key \"\" has 0 bytes":     "invalid: --label: the key \"\" has 0 bytes",
		"redlatch: invalid: Options.Labels are 9: give 8 at most":         "invalid: --label: there are 9: give 8 at most",
		"LockOptions.MaxWaiters is 1, and LockOptions.MaxWait has passed": "--max-waiters is 1, and --wait has passed",
		"taken; TakenError.Describe or `redlatch inspect` tells":          "taken; `redlatch inspect` tells",
		"no answer from Redis: context deadline exceeded":                 "no answer from Redis in time",
		"context deadline exceeded":                                       "no answer in time",
	} {
		check.Equal(t, Text(errors.New(text)), want, "Text(%q)", text)
	}
}

func TestNoPasswordIsPrinted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial redis://:hush@host:1/0: no":          "dial redis://...@host:1/0: no",
		"redis+sentinel://u:hush@a,b/m":            "redis+sentinel://...@a,b/m",
		"rediss://host?sentinel_password=hush&x":   "rediss://host?sentinel_password=...&x",
		"unix://:hu/sh@/run/s":                     "unix://...@/run/s",
		"redis://u:hu@sh@host":                     "redis://...@host",
		"give redis://[user:password@]host:port":   "give redis://[user:password@]host:port",
		"redis://host:6379 and mail@example.org":   "redis://host:6379 and mail@example.org",
		"two redis://:a@h redis://:b@i, one \"c\"": "two redis://...@h redis://...@i, one \"c\"",
	} {
		check.Equal(t, Redacted(text), want, "Redacted(%q)", text)
	}
	for url, want := range map[string]string{
		"redis://:hush@host:1/2?dial_timeout=1s":                 "redis://host:1/2?dial_timeout=1s",
		"redis+sentinel://a,b/m?sentinel_password=hush&ca=x.pem": "redis+sentinel://a,b/m?ca=x.pem",
		"unix://:hush@/run/s":                                    "unix:///run/s",
	} {
		check.That(t, Secret(url), "Secret(%q) = false, want true", url)
		check.Equal(t, Bare(url), want, "Bare(%q)", url)
	}
	check.That(t, !Secret("redis://user@host") && !Secret("unix:///run/redis.sock"), "a URL without a password has one")
}

// FuzzRedacted prints URLs that lead to Redis, with hush in the password: nothing of it is left.
func FuzzRedacted(f *testing.F) {
	for _, url := range []string{
		"redis://:hush@host:1/0", "redis+sentinel://u:hu'hush@a,b/m?sentinel_password=x", "rediss+sentinel://host/m?sentinel_password=hush&ca=x",
		"unix://:%22hush@/run/s", "redis+cluster://u:a:hush@[::1]:7,b", "redis://u:`hush@h", "redis+sentinel://h/m?sentinel%5fpassword=hush",
		"redis+sentinel://h/m?dial_timeout=1s&sentinel_password=a'hush", "redis+sentinel://h/m?sentinel_password=a\"b hush", "redis://u%20:hush@h", "redis://user:password@hush@h", "redis+sentinel://:hush@0/@",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		o, _, err := address.Parse(url)
		if err != nil || !strings.Contains(o.Password+o.Sentinel.Password, "hush") || strings.Count(url, "hush") != 1 {
			return
		}
		check.That(t, Secret(url), "Secret(%q) = false", url)
		for _, text := range []string{Redacted(url), Redacted("dial " + url + ": no"), Bare(url)} {
			check.That(t, !strings.Contains(text, "hush"), "%q is printed as %q", url, text)
		}
		bare, _, err := address.Parse(Bare(url))
		check.That(t, err == nil && bare.Password+bare.Sentinel.Password == "", "Bare(%q) = %q: %v", url, Bare(url), err)
	})
}
