package main

import (
	"bytes"
	"math"
	"path/filepath"
	"strings"
	"testing"
)

// measuredScene returns the results of the first scene of a part, by system and figure.
func measuredScene(p part, figures map[string]sample) (*measured, scene) {
	s := p.scenes(nil, form{})[0]
	m := &measured{Part: p.name, Date: "2026-11-22", Commit: "abc"}
	for system, of := range figures {
		one := result{Group: s.group, Scene: s.name, System: system, Rounds: 1, Figures: make(map[string]spread)}
		for key, v := range of {
			one.Figures[key] = spread{v, v, v}
		}
		m.Results = append(m.Results, one)
	}
	return m, s
}

// TestPageTellsWhereRedlatchLoses: a figure that is worse than another library's is in the list, and
// no other; the floor and redlatch's other settings do not count.
func TestPageTellsWhereRedlatchLoses(t *testing.T) {
	few, s := measuredScene(parts[place("few")], map[string]sample{
		"redlatch":               {"cycles": 50, "p99": 10, "cpu": 20},
		"redlatch, strict order": {"cycles": 90},
		"floor rueidis":          {"cycles": 200},
		"redsync rueidis":        {"cycles": 100, "p99": 12, "cpu": 19.5},
		"rueidislock":            {"cycles": 80, "p99": 30, "cpu": 40},
	})
	r := &report{}
	r.put(few)
	var page bytes.Buffer
	r.page(&page, form{}, nil)
	list, _, _ := strings.Cut(strings.SplitN(page.String(), "## Where redlatch is not the fastest", 2)[1], "\n## ")
	if want := "| " + s.group + " | cycles/s 0.50 (1 goroutine) | redsync rueidis |"; !strings.Contains(list, want) {
		t.Errorf("the list lacks %q:\n%s", want, list)
	}
	if strings.Contains(list, "p99") || strings.Contains(list, "CPU") {
		t.Errorf("the list has a figure in which redlatch is the best, or within %v of it:\n%s", noise, list)
	}
	if first, second := strings.Index(page.String(), "## The work of users"), strings.Index(page.String(), "## Where"); first < 0 || first > second {
		t.Errorf("the page does not begin with the work of users")
	}
	if !strings.Contains(page.String(), "Not measured yet: `make bench ARGS='-parts users'`") {
		t.Error("the page does not say what was not measured")
	}
}

// TestPartsAreKept: a part that is measured again takes the place of the old one, and the others stay.
func TestPartsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	r := &report{}
	for _, name := range []string{"slots", "users", "few"} {
		r.put(&measured{Part: name, Commit: "old"})
	}
	if err := r.write(file); err != nil {
		t.Fatal(err)
	}
	r, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	r.put(&measured{Part: "few", Commit: "new"})
	got := ""
	for _, m := range r.Parts {
		got += m.Part + " " + m.Commit + ", "
	}
	if want := "users old, few new, slots old, "; got != want {
		t.Errorf("parts are %q, want %q", got, want)
	}
	if r, err := load(file + ".none"); err != nil || len(r.Parts) != 0 {
		t.Errorf("load of a file that is not there = %v, %v; want no parts", r, err)
	}
}

func TestAimsAreMet(t *testing.T) {
	for _, c := range []struct {
		value     float64
		aim, want string
	}{
		{1.2, "1.2 at most", "yes"},
		{1.21, "1.2 at most", "no"},
		{0.9, "0.9 at least", "yes"},
		{0.89, "0.9 at least", "no"},
		{1, "", ""},
	} {
		if got := met(c.value, c.aim); got != c.want {
			t.Errorf("%v with the aim %q: met %q, want %q", c.value, c.aim, got, c.want)
		}
	}
}

// TestShares: the n-th name is chosen n^-exponent as often as the first.
func TestShares(t *testing.T) {
	up := shares(1000, 0.8)
	if last := up[len(up)-1]; math.Abs(last-1) > 1e-9 {
		t.Errorf("all names together are %v of the choices", last)
	}
	if ratio := (up[9] - up[8]) / up[0]; math.Abs(ratio-math.Pow(10, -0.8)) > 1e-9 {
		t.Errorf("the tenth name is chosen %v times as often as the first", ratio)
	}
}

// TestScenesAreTold: in the list, scenes that count the same thing name it once.
func TestScenesAreTold(t *testing.T) {
	l := losses{all: []loss{{scene: "1 goroutine", by: "a", ratio: 0.5}, {scene: "16 goroutines", by: "b", ratio: 0.7}, {scene: "256 goroutines", by: "a", ratio: 0.6}}}
	if got := l.scenes() + "; " + l.ratios() + "; " + strings.Join(l.best(), ", "); got != "1, 16, 256 goroutines; 0.50 to 0.70; a, b" {
		t.Errorf("the list has %q", got)
	}
}
