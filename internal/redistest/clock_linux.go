package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// A server with a clock of its own runs with a small library loaded before the C library's, which
// adds an offset to the wall clock. The offset is in a file that both map, so a step takes effect
// at once.

//go:embed clock/clock.c
var clockSource []byte

// clockVariable tells the library where the offset is.
const clockVariable = "REDISTEST_CLOCK"

// StartWithClock is [Start] for a server whose wall clock can be stepped. The test is skipped where
// there is no gcc to build what that takes.
func StartWithClock(t testing.TB, args ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("to step a server's clock, gcc has to build a library, and it is not on PATH (apt-get install gcc libc6-dev)")
	}
	dir := t.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("redistest: build %s: %v\n%s", source, err, out)
	}
	s := &Server{dir: dir, args: args, clock: filepath.Join(dir, "clock")}
	s.env = append(os.Environ(), "LD_PRELOAD="+library, clockVariable+"="+s.clock)
	if err := s.setClock(0); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s, err := launch(s)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s.t = t
	t.Cleanup(s.Stop)
	return s
}

// StepClock sets the clock of a server from [StartWithClock] so far ahead of the machine's, or
// behind.
func (s *Server) StepClock(ahead time.Duration) {
	s.helper()
	if err := s.setClock(ahead); err != nil {
		s.fail("step the clock: %v", err)
	}
}

// setClock writes into the file, and does not replace it.
func (s *Server) setClock(ahead time.Duration) error {
	f, err := os.OpenFile(s.clock, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	return binary.Write(f, binary.NativeEndian, ahead.Microseconds())
}
