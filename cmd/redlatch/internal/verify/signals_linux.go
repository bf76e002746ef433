package verify

import (
	"bytes"
	"fmt"
	"os"
)

// stands returns 1 if a process is suspended.
func stands(p *os.Process) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	if err != nil {
		return 0
	}
	if _, after, ok := bytes.Cut(text, []byte(") ")); ok && len(after) > 0 && after[0] == 'T' {
		return 1
	}
	return 0
}
