package redlatchweb

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// Options configure a [Handler]. The zero value shows everything and changes nothing.
type Options struct {
	// AllowRelease lets viewers take a lock by force. A viewer types the name of the lock first.
	// Default false.
	AllowRelease bool

	// Hosts are the names that browsers may use in the Host header for the dashboard, without a port, such as
	// "locks.example.com"; "*" is any. Over a loopback connection, "localhost" and loopback
	// addresses are always allowed. Default only these on loopback connections, and any name on
	// others.
	Hosts []string

	// Doctor looks for what can hurt locks. It is called while a viewer looks at what it found, at
	// most once a minute, and its context ends after 30 seconds. Default none, and the page says
	// that it is not set up.
	Doctor func(context.Context) ([]Finding, error)

	// Patterns split the names for /metrics, as those of redlatch.ListOptions do: a name counts for
	// the first that it matches, and otherwise for "other". At most 100. Default one, "*".
	Patterns []string

	// Interval is the shortest time between two looks at Redis. At least 100ms. Default 1s. Looks
	// at many names are further apart, so that they take a tenth of the time at most.
	Interval time.Duration

	// Log is told what viewers changed, and what they were refused. Default none.
	Log *slog.Logger
}

// Finding is a thing that Options.Doctor has looked at.
type Finding struct {
	Server string // "" for the whole deployment
	Check  string // such as "eviction"
	Level  string // "ok", "note", "warning" or "fault"
	Found  string
	Advice string // "" if there is nothing to do
}

// maxPatterns bounds the label of /metrics.
const maxPatterns = 100

// other is the pattern of names that match none of Options.Patterns.
const other = "other"

// withDefaults returns the options with their defaults, or says what makes no sense.
func (o Options) withDefaults() (Options, error) {
	switch {
	case o.Interval == 0:
		o.Interval = time.Second
	case o.Interval < 100*time.Millisecond:
		return o, fmt.Errorf("redlatchweb: %w: Options.Interval is %v: it must be 100ms or more", redlatch.ErrInvalid, o.Interval)
	}
	if len(o.Patterns) == 0 {
		o.Patterns = []string{"*"}
	}
	if len(o.Patterns) > maxPatterns {
		return o, fmt.Errorf("redlatchweb: %w: %d Options.Patterns: give at most %d", redlatch.ErrInvalid, len(o.Patterns), maxPatterns)
	}
	o.Patterns = slices.Clone(o.Patterns)
	for i, pattern := range o.Patterns {
		if _, err := keys.Match(pattern, ""); err != nil || pattern == "" || pattern == other || !utf8.ValidString(pattern) {
			return o, fmt.Errorf("redlatchweb: %w: the pattern %q of Options.Patterns makes no sense", redlatch.ErrInvalid, pattern)
		}
		if slices.Contains(o.Patterns[:i], pattern) {
			return o, fmt.Errorf("redlatchweb: %w: the pattern %q is twice in Options.Patterns", redlatch.ErrInvalid, pattern)
		}
	}
	o.Hosts = slices.Clone(o.Hosts)
	for i, host := range o.Hosts {
		if host == "" || strings.ContainsAny(host, "/ ") || net.ParseIP(host) == nil && strings.Contains(host, ":") {
			return o, fmt.Errorf("redlatchweb: %w: %q of Options.Hosts is no host name without a port", redlatch.ErrInvalid, host)
		}
		o.Hosts[i] = strings.ToLower(host)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
