package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
)

// TestInspectOfALongLine: the first of 10,000 waiters are shown, and the others counted.
func TestInspectOfALongLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	info := redlatch.LockInfo{Name: "a", At: time.Now()}
	for range 10_000 {
		info.Waiters = append(info.Waiters, redlatch.Waiter{Since: info.At, LastSeen: info.At, Labels: map[string]string{"trace": "\x1b[2J"}})
	}
	if err := (&app{stdout: &out}).page(info); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if n := strings.Count(text, "\n"); n > 110 || !strings.Contains(text, "10,000") || !strings.Contains(text, "and 9,900 more") {
		t.Errorf("inspect shows %d lines, of which the last are\n%s", n, text[max(0, len(text)-200):])
	}
	if strings.Contains(text, "\x1b") {
		t.Error("inspect shows a control character of a label")
	}
}

func TestAgainCanBeTypedAndKeepsPasswordsBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		redis, prefix, name, want string
	}{
		{"", defaultPrefix, "job", "redlatch release job"},
		{"redis://localhost:7000", "", "it's", `redlatch --redis redis://localhost:7000 --prefix '' release 'it'\''s'`},
		{"redis://me:hush@localhost", "p", "a b", "redlatch --redis URL --prefix p release 'a b'"},
		{"unix:///run/redis.sock?password=hush", defaultPrefix, "job", "redlatch --redis URL release job"},
		{"redis://:hush@%", defaultPrefix, "job", "redlatch --redis URL release job"},
		{"redis://a redis://b redis://c", defaultPrefix, "job", "redlatch --redis redis://a --redis redis://b --redis redis://c release job"},
	} {
		a := &app{redis: strings.Fields(c.redis), prefix: c.prefix}
		if got := a.again("release", c.name); got != c.want {
			t.Errorf("again = %s, want %s", got, c.want)
		}
	}
}

// TestReportBeginsAfterASecond: work that ends sooner is silent, and so is the report after stop.
func TestReportBeginsAfterASecond(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]int{
		999 * time.Millisecond: 0, 1500 * time.Millisecond: 1, 6500 * time.Millisecond: 2, 11500 * time.Millisecond: 3,
	} {
		synctest.Test(t, func(t *testing.T) {
			said := 0
			stop := report(func() { said++ })
			time.Sleep(took)
			stop()
			time.Sleep(time.Minute)
			if said != want {
				t.Errorf("said %d times in %v, want %d", said, took, want)
			}
		})
	}
}

func TestHelpNamesEveryCommandAndEveryCommandHasAnExample(t *testing.T) {
	t.Parallel()
	for _, cmd := range newRootCommand(&app{stdout: io.Discard, stderr: io.Discard}).Commands() {
		if cmd.Hidden {
			continue
		}
		if !strings.Contains(helpText("redlatch.txt"), "redlatch "+cmd.Name()) {
			t.Errorf("redlatch --help does not name %s", cmd.Name())
		}
		if cmd.Example == "" && cmd.Name() != "completion" { // cobra's own has them in its text
			t.Errorf("%s has no example", cmd.Name())
		}
	}
}

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
	if got := out.String(); got != "one\ntwo\n" {
		t.Errorf("drained %q, want both lines", got)
	}
}

func TestMainTalksOnTheStreamsItIsGiven(t *testing.T) {
	t.Parallel()
	var out, talk bytes.Buffer
	if code := Main(context.Background(), []string{"inspect"}, nil, &out, &talk); code != exitUsage {
		t.Errorf("Main(inspect) = %d, want %d", code, exitUsage)
	}
	want := "redlatch: inspect wants the name of one lock, got 0\nredlatch: hint: `redlatch inspect NAME`\n"
	if out.Len() > 0 || talk.String() != want {
		t.Errorf("stdout %q, stderr %q, want %q on stderr", out.String(), talk.String(), want)
	}
}
