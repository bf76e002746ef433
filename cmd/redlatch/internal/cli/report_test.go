package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/fleet/sample"
)

// TestWords: ls, inspect and log say of a lock what top and the dashboard say.
func TestWords(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{stdout: &out}
	shown := func(err error) string {
		t.Helper()
		defer out.Reset()
		if err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	want := func(screen string, words ...string) {
		t.Helper()
		for _, s := range words {
			if !strings.Contains(screen, s) {
				t.Errorf("%q is not in\n%s", s, screen)
			}
		}
	}
	lock := fleet.NewLock(sample.Lock(), time.Time{})
	want(shown(a.table([]*fleet.Lock{lock})), append(sample.OfList, "NAME", "HOLDER", "HELD FOR", "EXPIRES IN", "WAITING", "FIRST WAITS")...)
	want(shown(a.page(sample.Lock()))+entryLine(sample.Entry()), sample.OfPage...)
	for words, info := range sample.Others {
		info = sample.Named("a", info)
		want(shown(a.table([]*fleet.Lock{fleet.NewLock(info, time.Time{})})), words)
		want(shown(a.page(info)), words)
	}
}
