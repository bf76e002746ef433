package mutants

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// simulatedVariable runs TestMutantsAreSimulated, for the mutants whose names match it.
const simulatedVariable = "REDLATCH_SIMULATED"

// patiently is how long a simulation may take to find a mutant.
const patiently = 60 * time.Second

// TestMutantsAreSimulated tells which mutants the simulation finds without any other test, and prints
// the rest. It fails for none: docs/development.md says why each of the rest is not found.
func TestMutantsAreSimulated(t *testing.T) {
	wanted, err := regexp.Compile(os.Getenv(simulatedVariable))
	if err != nil || wanted.String() == "" {
		t.Skipf("set %s=. to run it, or make mutants-simulated: it takes an hour (%v)", simulatedVariable, err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var found, missed, tried int
	for _, m := range mutants {
		if !wanted.MatchString(m.name) {
			continue
		}
		tried++
		start := time.Now()
		verdict := "found by"
		if text, err := simulate(t, root, m); err == nil {
			missed++
			verdict = "missed after"
		} else {
			found++
			t.Logf("%s", firstFailure(text))
		}
		fmt.Fprintf(os.Stderr, "%3d of %d, %d missed: %s %3.0fs: %s: %s\n", tried, len(mutants), missed, verdict, time.Since(start).Seconds(), m.file, m.name)
	}
	t.Logf("the simulation finds %d of %d mutants", found, tried)
}

// firstFailure returns the line of a simulation's output that says what was wrong.
func firstFailure(text string) string {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "at ") || strings.Contains(line, "times; first") || strings.HasPrefix(line, "panic") {
			return line[:min(len(line), 300)]
		}
	}
	return text[:min(len(text), 300)]
}

// simulate runs the simulation with a mutant. It returns what that printed, and an error if it failed.
func simulate(t *testing.T, root string, m mutant) (string, error) {
	t.Helper()
	dir := t.TempDir()
	original := filepath.Join(root, m.file)
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(changed, bytes.Replace(text, []byte(m.old), []byte(m.new), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err != nil {
		t.Fatal(err)
	}
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "simulation.test")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", list, "-o", binary, "./internal/simulation")
	build.Dir = filepath.Join(root, "redlatchtest")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s does not build: %v\n%s", m.name, err, out)
	}
	run := exec.CommandContext(ctx, binary, "-test.run=^TestSimulate$", "-test.v", "-seed=1", "-seeds=100000", "-failures=1", "-for="+patiently.String())
	run.Dir = dir
	out, err := run.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("%s: the simulation does not run: %v\n%s", m.name, err, out)
	}
	return string(out), err
}
