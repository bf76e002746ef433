//go:build unix && !linux

package verify

import "os"

// stands returns 1: this system does not tell.
func stands(*os.Process) int64 { return 1 }
