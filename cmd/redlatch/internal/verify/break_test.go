//go:build redlatch_break

package verify

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/verify/history"
)

// TestBreaksAreFound has each way to break redlatch end in FAIL, by a check that is for it.
func TestBreaksAreFound(t *testing.T) {
	t.Parallel()
	few := make(chan struct{}, 4) // each is some processes
	for _, name := range Breaks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			few <- struct{}{}
			defer func() { <-few }()
			b := breaks[name]
			faults := b.faults
			if faults == nil {
				faults = []string{"script-flush"}
			}
			report, err := Run(t.Context(), Options{
				Deployment: "one", Prefix: "redlatch:", Duration: 8 * time.Second, Workers: 3, Kinds: b.kinds, Faults: faults,
				TTL: cmp.Or(b.ttl, 500*time.Millisecond), Library: "redlatch", Break: name, Out: t.TempDir(),
			})
			if err != nil {
				t.Fatalf("Run = %v, want a report", err)
			}
			found := slices.ContainsFunc(report.Findings, func(f history.Finding) bool { return f.Bad > 0 && slices.Contains(b.finds, f.Check) })
			if report.Verdict != Fail || !found {
				t.Errorf("the verdict is %s, want FAIL by one of %q:\n%s", report.Verdict, b.finds, Text(report))
			}
			t.Logf("found: %q", report.Reasons)
		})
	}
}
