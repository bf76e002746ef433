package groups_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/base/groups"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// of returns the group of a name: what is before its colon.
func of(name string) string {
	group, _, _ := strings.Cut(name, ":")
	return group
}

func create(kind, mode string, group *string) *string {
	label := "none"
	if group != nil {
		label = *group
	}
	label = strings.Join([]string{kind, mode, label}, " ")
	return &label
}

// TestSeriesAreMadeOnce: goroutines that come at the same time count in the same series.
func TestSeriesAreMadeOnce(t *testing.T) {
	t.Parallel()
	g := groups.New(of, create)
	var all sync.WaitGroup
	found := make([]*string, 64)
	for i := range found {
		all.Go(func() { found[i] = g.Series(fmt.Sprint("a:", i), "mutex", "") })
	}
	all.Wait()
	for _, s := range found {
		if s != found[0] || *s != "mutex  a" {
			t.Fatalf("a goroutine counts in %q at %p, want %q at %p", *s, s, *found[0], found[0])
		}
	}
	for _, other := range []*string{g.Series("a:1", "rwmutex", "r"), g.Series("a:1", "rwmutex", "w"), g.Series("b:1", "mutex", "")} {
		check.That(t, other != found[0], "%q are the series of another kind, mode or group", *other)
	}
}

// TestGroupsHaveALimit: names of more groups are of the group "other", and no group is lost for them.
func TestGroupsHaveALimit(t *testing.T) {
	t.Parallel()
	g := groups.New(of, create)
	for i := range 3 * groups.Most {
		g.Series(fmt.Sprint(i, ":x"), "mutex", "")
	}
	check.Equal(t, *g.Series("0:y", "mutex", ""), "mutex  0", "the series of the first group")
	check.Equal(t, *g.Series("new:y", "mutex", ""), "mutex  other", "those of a group too many")
	check.Equal(t, *g.Series("\xff:y", "mutex", ""), "mutex  other", "those of a group that is no text")
	n := 0
	g.Each(func(*string) { n++ })
	check.Equal(t, n, groups.Most+1, "series of the groups and of the others")
}

// TestOneGroupHasNoLabel: without a function that tells groups, all names count together.
func TestOneGroupHasNoLabel(t *testing.T) { // not parallel: it counts allocations
	g := groups.New(nil, create)
	a, b := g.Series("a", "mutex", ""), g.Series("b", "mutex", "")
	if a != b || *a != "mutex  none" {
		t.Errorf("the series are %q and %q, want the same without a group", *a, *b)
	}
	n := testing.AllocsPerRun(100, func() { g.Series("a", "mutex", "") })
	check.Equal(t, n, 0, "allocations to find series")
}

// TestAgeOfALease: a lease that is extended each 10s tells its age once a minute.
func TestAgeOfALease(t *testing.T) {
	t.Parallel()
	n := 0
	for held := 10 * time.Second; held < 50*time.Minute; held += 10 * time.Second {
		if groups.Aged(held, 10*time.Second) {
			n++
		}
	}
	check.That(t, n >= 49 && n <= 100, "the age was told %d times in 50 minutes, want 50", n)
}
