package lock

import (
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
)

// Occupant is what Redis last said of an owner inside a lock, or of one that left it shut.
type Occupant struct {
	Owner string    // "" if that is not known
	Until time.Time // when its lease ends or the lock opens; zero if that is not known, or never
}

// OccupantAt returns an owner inside, going by an answer that has just come.
func OccupantAt(owner string, left time.Duration, now clock.Reading) Occupant {
	if left <= 0 {
		return Occupant{Owner: owner}
	}
	return Occupant{owner, now.Time().Add(left)}
}
