package scenes

import (
	"sync"
	"time"

	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// player is an actor in a role of this package.
type player struct{ *world.Actor }

// stage is what the players of a world share.
type stage struct {
	mu       sync.Mutex // guards what is below
	texts    []string   // of leases that were detached
	lastUsed string     // of those: adopted last
	flow     string     // is in the mutex "named"
	flows    int        // so often
	robbed   int64      // the largest token of the mutex "robbed"
	shared   neighbourhood
}

// on returns the stage of a world.
func on(w *world.World) *stage { return w.State.(*stage) }

// neighbourhood is what the world knows of the mutex "shared".
type neighbourhood struct {
	inside    int
	freed     time.Time // by the other library, and not acquired since
	announced time.Time // last
}
