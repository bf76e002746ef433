package main

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// measuredScene returns the results of the first scene of a part, by system and figure.
func measuredScene(p part, figures map[string]sample) (*measured, scene) {
	s := p.scenes(form{})[0]
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

// TestTableTellsWhereRedlatchLoses: a figure of redlatch stands beside that of the best other library,
// which the floor and redlatch's other settings are not.
func TestTableTellsWhereRedlatchLoses(t *testing.T) {
	p := parts[place("few")]
	few, s := measuredScene(p, map[string]sample{
		"redlatch":               {"cycles": 50, "p99": 10},
		"redlatch, strict order": {"cycles": 90},
		"floor rueidis":          {"cycles": 200, "p99": 5},
		"redsync rueidis":        {"cycles": 100, "p99": 12},
		"rueidislock":            {"cycles": 80, "p99": 40},
	})
	r := &report{}
	r.put(few)
	check.OK(t, "plots", r.plots(t.TempDir()))
	rows := r.raw(p, form{})
	cell := func(system, title string) string {
		for _, row := range rows[1:] {
			if row[1] == s.name && row[2] == system {
				return row[slices.Index(rows[0], title)+2]
			}
		}
		return "no row"
	}
	for _, c := range []struct{ system, title, want string }{
		{"redlatch", "cycles/s", "0.50"},
		{"redlatch, strict order", "cycles/s", "0.90"},
		{"redlatch", "p99 µs", "0.83"},
		{"redlatch, strict order", "p99 µs", ""},
		{"redsync rueidis", "cycles/s", ""},
		{"floor rueidis", "cycles/s", ""},
	} {
		check.Equal(t, cell(c.system, c.title), c.want, "%s of %s to the best", c.title, c.system)
	}
	for _, row := range rows {
		check.That(t, len(row) == len(rows[0]), "row %q has %d cells, want %d as the header", row, len(row), len(rows[0]))
	}
}

// TestPartsAreKept: a part that is measured again takes the place of the old one, and the others stay.
func TestPartsAreKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	r := &report{}
	for _, name := range []string{"slots", "users", "few"} {
		r.put(&measured{Part: name, Commit: "old"})
	}
	check.OK(t, "write", r.write(file))
	r = check.Value(load(file)).OK(t)
	r.put(&measured{Part: "few", Commit: "new"})
	got := ""
	for _, m := range r.Parts {
		got += m.Part + " " + m.Commit + ", "
	}
	check.Equal(t, got, "users old, few new, slots old, ", "parts")
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
		check.Equal(t, met(c.value, c.aim), c.want, "met by %v with the aim %q", c.value, c.aim)
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
