package operations

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// logged is what a handler for JSON makes of a value.
func logged(v any) string {
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("", "v", v)
	_, value, _ := strings.Cut(out.String(), `"v":`)
	return strings.TrimSpace(value)
}

// wantPrinted checks what fmt and a log make of a value.
func wantPrinted(t *testing.T, v any, text, log string) {
	t.Helper()
	if got := fmt.Sprint(v); !regexp.MustCompile("^" + text + "$").MatchString(got) {
		t.Errorf("it prints %s, want %s", got, text)
	}
	if got := logged(v); !regexp.MustCompile("^" + log + "}$").MatchString(got) {
		t.Errorf("a log has %s, want %s", got, log)
	}
}

// TestLocksPrint: a line of a log that shows the insides of a lock shows everything but its name.
func TestLocksPrint(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Start(t).URL(), help.Brisk(help.Lasting))
	wantPrinted(t, c.Mutex("a b"), `mutex "a b"`, `{"kind":"mutex","name":"a b"}`)
	wantPrinted(t, c.ReentrantMutex("a"), `reentrant "a"`, `{"kind":"reentrant","name":"a"}`)
	wantPrinted(t, c.RWMutex("a"), `rwmutex "a"`, `{"kind":"rwmutex","name":"a"}`)
	wantPrinted(t, c.Semaphore("a", 3), `semaphore of 3 "a"`, `{"kind":"semaphore","name":"a","size":3}`)
	wantPrinted(t, c.SlotPool("a", 3, redlatch.SlotOptions{}), `slotpool of 3 "a"`, `{"kind":"slotpool","name":"a","size":3}`)
	wantPrinted(t, c.Election("a"), `election "a"`, `{"kind":"election","name":"a"}`)
	wantPrinted(t, c.Job("a", redlatch.JobOptions{Window: help.Lasting}), `job "a"`, `{"kind":"job","name":"a"}`)
	wantPrinted(t, c.MultiMutex("b", "a"), `mutexes \["a" "b"\]`, `{"names":\["a","b"\]}`)
}

// TestLeasesPrint says of each kind's lease what it is on, and how it ended.
func TestLeasesPrint(t *testing.T) {
	details := map[string][2]string{"rwmutex": {`, mode write,`, `"mode":"write",`}, "slotpool": {`, slot 0,`, `"slot":"0",`}}
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
		l := help.Enter(t, help.LockOf(c, kind))
		lock, detail := regexp.QuoteMeta(fmt.Sprintf("%q", l.Name())), details[l.Name()]
		text := fmt.Sprintf(`lease on %s( of \d)? %s%s with token \d+, `, l.Name(), lock, detail[0])
		log := fmt.Sprintf(`{"kind":%s,"name":%s,("size":\d,)?%s"owner":"%s","token":\d+,`, lock, lock, detail[1], l.Owner())
		wantPrinted(t, l, text+`held for another 59m[0-9.]+s`, log+`"remaining":"59m[0-9.]+s"}`)
		locktest.Release(t, l)
		wantPrinted(t, l, text+`released`, log+`"ended":"released"}`)
		l = help.Enter(t, help.LockOf(c, kind))
		s.Do("DEL", locktest.StateKey(l.Name()), help.InsideKey(l.Name()), help.BitsKey(l.Name()))
		log = regexp.MustCompile(`"owner":"[^"]*"`).ReplaceAllString(log, `"owner":"`+l.Owner()+`"`)
		_ = l.Extend(t.Context())
		wantPrinted(t, l, text+`lost: its key is no longer in Redis: deleted or evicted`, log+`"ended":"lost: its key is no longer in Redis: deleted or evicted"}`)
		l = help.Enter(t, help.LockOf(c, kind))
		check.OK(t, "Detach", check.ErrorOf(l.Detach(t.Context())))
		if got := l.String(); !strings.HasSuffix(got, ", detached") {
			t.Errorf("a lease that was detached prints %s", got)
		}
	})
}
