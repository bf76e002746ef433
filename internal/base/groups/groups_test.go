package groups_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/base/groups"
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
		if other == found[0] {
			t.Errorf("%q are the series of another kind, mode or group", *other)
		}
	}
}

// TestGroupsHaveALimit: names of more groups are of the group "other", and no group is lost for them.
func TestGroupsHaveALimit(t *testing.T) {
	t.Parallel()
	g := groups.New(of, create)
	for i := range 3 * groups.Most {
		g.Series(fmt.Sprint(i, ":x"), "mutex", "")
	}
	if s := g.Series("0:y", "mutex", ""); *s != "mutex  0" {
		t.Errorf("the series of the first group are %q", *s)
	}
	if s := g.Series("new:y", "mutex", ""); *s != "mutex  other" {
		t.Errorf("the series of a group too many are %q", *s)
	}
	if s := g.Series("\xff:y", "mutex", ""); *s != "mutex  other" {
		t.Errorf("the series of a group that is no text are %q", *s)
	}
	n := 0
	g.Each(func(*string) { n++ })
	if n != groups.Most+1 {
		t.Errorf("there are %d series, want those of %d groups and of the others", n, groups.Most)
	}
}

// TestOneGroupHasNoLabel: without a function that tells groups, all names count together.
func TestOneGroupHasNoLabel(t *testing.T) { // not parallel: it counts allocations
	g := groups.New(nil, create)
	a, b := g.Series("a", "mutex", ""), g.Series("b", "mutex", "")
	if a != b || *a != "mutex  none" {
		t.Errorf("the series are %q and %q, want the same without a group", *a, *b)
	}
	if n := testing.AllocsPerRun(100, func() { g.Series("a", "mutex", "") }); n != 0 {
		t.Errorf("to find series takes %v allocations, want none", n)
	}
}

// TestAgeOfALongLease: a lease that ExtendTo has made an hour long is extended each 10s, and tells its age
// once a minute.
func TestAgeOfALongLease(t *testing.T) {
	t.Parallel()
	n := 0
	for held := 10 * time.Second; held < 50*time.Minute; held += 10 * time.Second {
		if groups.Aged(held, 30*time.Second, time.Hour-held) {
			n++
		}
	}
	if n < 49 || n > 100 {
		t.Errorf("the age was told %d times in 50 minutes, want once a minute", n)
	}
}
