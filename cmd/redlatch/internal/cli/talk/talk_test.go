package talk

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"time"
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
	if got := out.String(); got != "one\ntwo\n" {
		t.Errorf("drained %q, want both lines", got)
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
		if got := Redacted(text); got != want {
			t.Errorf("Redacted(%q) = %q, want %q", text, got, want)
		}
	}
	for url, want := range map[string]string{
		"redis://:hush@host:1/2?dial_timeout=1s":                 "redis://host:1/2?dial_timeout=1s",
		"redis+sentinel://a,b/m?sentinel_password=hush&ca=x.pem": "redis+sentinel://a,b/m?ca=x.pem",
		"unix://:hush@/run/s":                                    "unix:///run/s",
	} {
		if !Secret(url) {
			t.Errorf("Secret(%q) = false, want true", url)
		}
		if got := Bare(url); got != want {
			t.Errorf("Bare(%q) = %q, want %q", url, got, want)
		}
	}
	if Secret("redis://user@host") || Secret("unix:///run/redis.sock") {
		t.Error("a URL without a password has one")
	}
}
