package a

import (
	"context"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

func TestTaken(t *testing.T) {
	check.That(t, check.ErrorOf(new(redlatch.Mutex).TryLock(context.Background())) != nil, "it is free")
}

func ExampleMutex() {
	_, _ = new(redlatch.Mutex).TryLock(context.Background()) // want `the lease of Mutex.TryLock is thrown away`
}
