//go:build !redlatch_break

package verify

import (
	"errors"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/verify/worker"
)

// Breaks is empty: this program cannot be told to break its promises. See break.go.
var Breaks []string

// broken is how redlatch is broken on purpose.
type broken struct {
	rewrite func(*conn.Script) *conn.Script
}

func breaking(name string) (broken, error) {
	if name != "" {
		return broken{}, errors.New("this program cannot break anything: build it with -tags redlatch_break")
	}
	return broken{}, nil
}

func (broken) locker(k *locker) worker.Locker { return k }
