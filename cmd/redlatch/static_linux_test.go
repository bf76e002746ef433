package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// build builds the program as a release does.
func build(t *testing.T, args ...string) (program string) {
	t.Helper()
	if testing.Short() {
		t.Skip("it compiles everything once more: make test-all does")
	}
	program = filepath.Join(t.TempDir(), "redlatch")
	command := exec.Command("go", append([]string{"build", "-trimpath", "-o", program}, args...)...)
	command.Env = append(command.Environ(), "CGO_ENABLED=0")
	out, err := command.CombinedOutput()
	check.Must(t, err == nil, "go build: %v\n%s", err, out)
	return program
}

// TestBinaryIsStatic builds the program as a release does: it needs no loader and no library, so
// that it runs on any Linux and in an image with nothing else in it.
func TestBinaryIsStatic(t *testing.T) {
	t.Parallel()
	program := build(t, "-ldflags", "-s -w -X github.com/redlatch/redlatch/cmd/redlatch/internal/cli.releaseVersion=v1.2.3"+
		" -X github.com/redlatch/redlatch/cmd/redlatch/internal/cli.releaseCommit=0123456789abcdef0123")
	file := check.Value(elf.Open(program)).OK(t)
	defer file.Close()
	for _, p := range file.Progs {
		check.That(t, p.Type != elf.PT_INTERP && p.Type != elf.PT_DYNAMIC, "the program has a segment of type %v: it is not static", p.Type)
	}
	if libraries, err := file.ImportedLibraries(); len(libraries) > 0 {
		t.Errorf("the program needs %v (%v)", libraries, err)
	}
	version := exec.Command(program, "version")
	version.Env = []string{}
	out, err := version.Output()
	if want := "redlatch v1.2.3 (commit 0123456789ab, protocol "; err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("redlatch version = %q, %v, want a line that begins with %q", out, err, want)
	}
}

// TestSmallBuild: a build for sidecars is below 15 MB. It says of the commands that it lacks how to
// get them, and of itself what the whole one says.
func TestSmallBuild(t *testing.T) {
	t.Parallel()
	program := build(t, "-tags", "redlatch_small", "-ldflags", "-s -w")
	if size := check.Value(os.Stat(program)).OK(t).Size(); size > 15e6 {
		t.Errorf("it has %d bytes, want 15 MB at most", size)
	}
	page, err := exec.Command(program, "--help").Output()
	check.That(t, err == nil && strings.Contains(string(page), "\n\nUse it:\n  redlatch run"), "redlatch --help = %v, %s", err, page)
	for _, name := range []string{"demo", "dev", "verify", "web"} {
		out, err := exec.Command(program, name).CombinedOutput()
		check.That(t, !strings.Contains(string(page), "redlatch "+name), "redlatch --help names %s: %s", name, page)
		check.That(t, err != nil && strings.Contains(string(out), "-tags redlatch_small"), "redlatch %s = %v, %s, want why it is not there", name, err, out)
	}
	if out, err := exec.Command(program, "--version").Output(); err != nil || !strings.HasPrefix(string(out), "redlatch ") {
		t.Errorf("redlatch --version = %s, %v", out, err)
	}
}
