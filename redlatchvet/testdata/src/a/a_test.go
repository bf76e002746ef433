package a

import (
	"context"
	"testing"

	"github.com/redlatch/redlatch"
)

func TestTaken(t *testing.T) {
	if _, err := new(redlatch.Mutex).TryLock(context.Background()); err == nil {
		t.Error("it is free")
	}
}

func ExampleMutex() {
	_, _ = new(redlatch.Mutex).TryLock(context.Background()) // want `the lease of Mutex.TryLock is discarded`
}
