package quorum

import "sync"

// flights counts goroutines that Close waits for. Unlike those of a [sync.WaitGroup], they may begin
// while a caller waits: what is under way in the background sends requests then, too.
type flights struct {
	mu   sync.Mutex // guards what is below
	n    int
	none chan struct{} // closed when n is zero again
}

// Go runs f on a goroutine.
func (f *flights) Go(run func()) {
	f.mu.Lock()
	if f.n++; f.n == 1 {
		f.none = make(chan struct{})
	}
	f.mu.Unlock()
	go func() {
		defer f.done()
		run()
	}()
}

func (f *flights) done() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n--; f.n == 0 {
		close(f.none)
	}
}

// Wait returns when there is a moment without such a goroutine.
func (f *flights) Wait() {
	f.mu.Lock()
	n, none := f.n, f.none
	f.mu.Unlock()
	if n > 0 {
		<-none
	}
}
