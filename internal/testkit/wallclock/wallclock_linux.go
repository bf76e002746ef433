package wallclock

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

//go:embed clock/clock.c
var source []byte

// variable tells the library where the offset is.
const variable = "REDLATCH_WALLCLOCK"

// Build builds the library in dir, and returns its path. If there is no compiler, the error is an
// [ErrCannot].
func Build(dir string) (library string, err error) {
	if _, err := exec.LookPath("gcc"); err != nil {
		return "", fmt.Errorf("%w: gcc has to build a library, and it is not on PATH (apt-get install gcc libc6-dev)", ErrCannot)
	}
	text := filepath.Join(dir, "clock.c")
	if err := os.WriteFile(text, source, 0o600); err != nil {
		return "", err
	}
	library = filepath.Join(dir, "clock.so")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-O1", "-o", library, text).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: gcc cannot build a library: %w\n%s", ErrCannot, err, out)
	}
	return library, nil
}

// New returns a clock whose offset is in this file. It begins as that of the machine.
func New(file string) (*Clock, error) {
	c := &Clock{file: file}
	return c, c.Set(0)
}

// Environment returns that of a process with this clock, through the library that [Build] built.
func (c *Clock) Environment(library string) []string {
	return append(os.Environ(), "LD_PRELOAD="+library, variable+"="+c.file)
}

// Set sets the clock that far ahead of the machine's, or behind it. It writes into the file, and
// does not replace it.
func (c *Clock) Set(ahead time.Duration) error {
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(binary.Write(f, binary.NativeEndian, ahead.Microseconds()), f.Close()); err != nil {
		return err
	}
	c.ahead.Store(int64(ahead))
	return nil
}
