package handoff

// maxRevoked is how many owners are remembered. That a mutex was taken by force matters until the
// next goroutine of the group has it, which is a moment. The word of it comes from outside, so that
// there must be a bound.
const maxRevoked = 1024

// owners is a set of owners that forgets old ones: it holds the last maxRevoked at least, and twice
// as many at most.
type owners struct{ newer, older map[string]bool }

func (o *owners) add(owner string) {
	if len(o.newer) >= maxRevoked {
		o.newer, o.older = nil, o.newer
	}
	if o.newer == nil {
		o.newer = make(map[string]bool)
	}
	o.newer[owner] = true
}

func (o *owners) has(owner string) bool { return o.newer[owner] || o.older[owner] }
