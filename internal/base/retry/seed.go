package retry

import (
	"math/rand/v2"
	"sync"
)

// draw returns a number from 0 to 1.
var draw = rand.Float64

// Seed makes [Jitter] draw the same numbers after each call with the same seed. It is for
// simulations: it affects the whole process, and nothing else may run at that time.
func Seed(seed uint64) {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	draw = func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return random.Float64()
	}
}
