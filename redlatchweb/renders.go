package redlatchweb

import (
	"crypto/sha256"
	"strings"
	"sync"
	"time"
)

// renders keeps what was rendered of the last picture, so that viewers of the same page share it.
type renders struct {
	mu     sync.Mutex // guards all below
	number uint64     // of the picture
	second int64
	parts  map[string]*part
}

// maxRenders bounds what is kept of one picture.
const maxRenders = 200

// of returns what is kept of a picture under a key, or has it rendered.
func (r *renders) of(number uint64, key string, render func() (*part, error)) (*part, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now().Unix(); r.number != number || r.second != now {
		r.number, r.second, r.parts = number, now, make(map[string]*part)
	}
	if done := r.parts[key]; done != nil {
		return done, nil
	}
	done, err := render()
	if err == nil && len(r.parts) < maxRenders {
		r.parts[key] = done
	}
	return done, err
}

// part is the rendering of the parts of a page that live: its status and its content.
type part struct{ status, content live }

// live is the HTML of a part, without the indentation of the templates, and the sum of it.
type live struct {
	html []byte
	sum  [sha256.Size]byte
}

func newLive(html []byte) live {
	var lines []string
	for line := range strings.Lines(string(html)) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	html = []byte(strings.Join(lines, "\n"))
	return live{html, sha256.Sum256(html)}
}
