package groups

import (
	"runtime"
	"runtime/debug"
	"time"
)

// Aged reports whether an extend gives the age of its lease: the first does, and the first in each
// minute of the lease. So a lease with a short TTL does not count more than another, and most
// extends are one measurement, not two.
func Aged(heldFor, sinceLast time.Duration) bool { return heldFor%time.Minute <= sinceLast }

// Version returns the version of redlatch in this program, and that of Go.
func Version() (redlatch, goVersion string) {
	const path = "github.com/redlatch/redlatch"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown", runtime.Version()
	}
	for _, module := range append(info.Deps, &info.Main) {
		if module.Path == path && module.Version != "" {
			return module.Version, runtime.Version()
		}
	}
	return "unknown", runtime.Version()
}
