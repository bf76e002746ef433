package quorum

import "sync"

// flights counts goroutines that Close waits for. Unlike those of a [sync.WaitGroup], they may begin
// while a caller waits: work in the background may still send requests then.
type flights struct {
	mu   sync.Mutex // guards what is below
	n    int
	none chan struct{} // closed when n is zero again; nil if no goroutine waits for that
}

// Go runs f on a goroutine.
func (f *flights) Go(run func()) {
	f.begin()
	go func() {
		defer f.done()
		run()
	}()
}

// begin counts a goroutine that is about to begin. The goroutine calls done when it ends.
func (f *flights) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
}

func (f *flights) done() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 && f.none != nil {
		close(f.none)
		f.none = nil
	}
}

// Wait returns once there is no such goroutine, if only for a moment.
func (f *flights) Wait() {
	f.mu.Lock()
	if f.n > 0 && f.none == nil {
		f.none = make(chan struct{})
	}
	none := f.none
	f.mu.Unlock()
	if none != nil {
		<-none
	}
}
