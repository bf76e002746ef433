package batch

import "runtime"

// Rule says when requests leave. Programs have that of [RuleFor], or of [Nodes].
type Rule struct {
	Alone  int  // a request leaves by itself while fewer are under way
	Rounds int  // times that a flush lets all goroutines run that can: 1, or more while more join
	Keep   bool // while a batch of Alone requests or more is under way, none leaves by itself
}

// How many requests leave by themselves: as many as make up for the cost of a batch, in which
// client and server take turns.
const (
	alone          = 2
	alonePipelined = 16 // where they cost no more system calls than a batch
)

// RuleFor returns the rule of [New]. With Keep a crowd of many more goroutines than leave by
// themselves sends batches alone: a mixture had as many system calls as requests by themselves, and
// smaller bundles.
func RuleFor(pipelined bool) Rule {
	if pipelined {
		return Rule{Alone: alonePipelined, Rounds: 1, Keep: true}
	}
	return Rule{Alone: alone, Rounds: 1, Keep: true}
}

// gather lets other goroutines join the queue: all that can run at that moment, and those that they
// let run, for as long as more join.
func (s *Sender) gather() {
	runtime.Gosched()
	for n, before := 1, 0; n < s.rule.Rounds; n++ {
		now := s.queued()
		if now == before {
			return
		}
		before = now
		runtime.Gosched()
	}
}

// queued returns how many calls are in the queue.
func (s *Sender) queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}
