// Package recent remembers texts for a moment. They may come from outside, so it keeps a bounded
// number.
package recent

// Kept is how many texts are remembered, at least.
const Kept = 1024

// Set is a set of texts that forgets old ones: it holds the last Kept at least, and twice as many at
// most. The zero value is empty. It is not safe for concurrent use.
type Set struct{ newer, older map[string]bool }

// Add adds a text.
func (s *Set) Add(text string) {
	if len(s.newer) >= Kept {
		s.newer, s.older = nil, s.newer
	}
	if s.newer == nil {
		s.newer = make(map[string]bool)
	}
	s.newer[text] = true
}

// Has reports whether a text was added lately.
func (s *Set) Has(text string) bool { return s.newer[text] || s.older[text] }
