package talk

import (
	"bytes"
	"io"
	"time"
)

// backlog is a writer that never blocks: a reader of stderr that stalls costs lines and not the
// lease. Each write is one line. A line that does not fit is dropped.
type backlog struct {
	lines chan []byte
	done  chan struct{}
}

func newBacklog(w io.Writer) *backlog {
	b := &backlog{lines: make(chan []byte, 256), done: make(chan struct{})}
	go func() {
		defer close(b.done)
		for line := range b.lines {
			if line == nil {
				return
			}
			_, _ = w.Write(line) // a reader that closed stderr does not want to know
		}
	}()
	return b
}

func (b *backlog) Write(line []byte) (int, error) {
	select {
	case b.lines <- bytes.Clone(line):
	default:
	}
	return len(line), nil
}

// drain returns when all is written, or when patience has passed. Later writes are dropped.
func (b *backlog) drain(patience time.Duration) {
	timeout := time.After(patience)
	select {
	case b.lines <- nil:
	case <-timeout:
		return
	}
	select {
	case <-b.done:
	case <-timeout:
	}
}
