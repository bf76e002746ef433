package main

import (
	"debug/elf"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestBinaryIsStatic builds the program as a release does: it needs no loader and no library, so
// that it runs on any Linux and in an image with nothing else in it.
func TestBinaryIsStatic(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles everything once more, without cgo: make test-all does")
	}
	t.Parallel()
	program := filepath.Join(t.TempDir(), "redlatch")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X github.com/redlatch/redlatch/cmd/redlatch/internal/cli.releaseVersion=v1.2.3"+
		" -X github.com/redlatch/redlatch/cmd/redlatch/internal/cli.releaseCommit=0123456789abcdef0123", "-o", program, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	file := check.Value(elf.Open(program)).OK(t)
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program has a segment of type %v: it is not static", p.Type)
		}
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
