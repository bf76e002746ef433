package demo

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Counter is a resource that checks fencing tokens, as a row with a fence column would. The zero
// value is ready.
type Counter struct {
	mu     sync.Mutex // guards what is below
	value  int
	newest int64 // token
}

// Add adds one, unless a newer token than this was here before.
func (c *Counter) Add(token int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if token < c.newest {
		return fmt.Errorf("its token is %v older than the newest", time.Duration(c.newest-token)*time.Microsecond)
	}
	c.newest = token
	c.value++
	return nil
}

// passes returns when a newer token was here, or ctx is done.
func (c *Counter) passes(ctx context.Context, token int64) {
	for ctx.Err() == nil && c.newestToken() <= token {
		time.Sleep(time.Millisecond)
	}
}

func (c *Counter) newestToken() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest
}

// Value is the number of writes that were accepted.
func (c *Counter) Value() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value
}
