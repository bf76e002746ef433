package redlatch

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// What fmt and log/slog make of a lock and of a lease. Fields that do not apply are left out.

// String returns the kind and the name, such as `mutex "invoice:42"`.
func (m *Mutex) String() string { return m.latch.String() }

// LogValue returns the kind and the name, as a group.
func (m *Mutex) LogValue() slog.Value { return m.latch.logValue() }

// String returns the kind and the name.
func (m *ReentrantMutex) String() string { return m.latch.String() }

// LogValue returns the kind and the name, as a group.
func (m *ReentrantMutex) LogValue() slog.Value { return m.latch.logValue() }

// String returns the kind and the name.
func (m *RWMutex) String() string { return m.latch.String() }

// LogValue returns the kind and the name, as a group.
func (m *RWMutex) LogValue() slog.Value { return m.latch.logValue() }

// String returns the kind, the name and the number of permits.
func (s *Semaphore) String() string { return s.latch.String() }

// LogValue returns the kind, the name and the number of permits, as a group.
func (s *Semaphore) LogValue() slog.Value { return s.latch.logValue() }

// String returns the kind, the name and the number of slots.
func (p *SlotPool) String() string { return p.latch.String() }

// LogValue returns the kind, the name and the number of slots, as a group.
func (p *SlotPool) LogValue() slog.Value { return p.latch.logValue() }

// String returns the kind and the name.
func (e *Election) String() string { return e.latch.String() }

// LogValue returns the kind and the name, as a group.
func (e *Election) LogValue() slog.Value { return e.latch.logValue() }

// String returns the kind and the name.
func (j *Job) String() string { return j.latch.String() }

// LogValue returns the kind and the name, as a group.
func (j *Job) LogValue() slog.Value { return j.latch.logValue() }

// String returns the names, in their order.
func (m *MultiMutex) String() string { return fmt.Sprintf("mutexes %q", m.names) }

// LogValue returns the names, as a group.
func (m *MultiMutex) LogValue() slog.Value { return slog.GroupValue(slog.Any("names", m.names)) }

func (l *latch) String() string { return describe(&l.Lock) }

func (l *latch) logValue() slog.Value { return slog.GroupValue(attributes(&l.Lock)...) }

// describe returns the kind and the name of a lock.
func describe(l *lock.Lock) string { return fmt.Sprintf("%s %q", sized(l.Kind.Name, l.Size), l.Name) }

func attributes(l *lock.Lock) []slog.Attr {
	all := []slog.Attr{slog.String("kind", l.Kind.Name), slog.String("name", l.Name)}
	if l.Size > 0 {
		all = append(all, slog.Int64("size", l.Size))
	}
	return all
}

// part returns what a lease has of a lock that others have, too: the mode, or the number of the
// slot. It returns "" for the other kinds.
func (l *Lease) part() (key, value string) {
	switch l.core.Lock().Kind.Name {
	case script.RWMutex.Name:
		return "mode", l.core.Lock().Mode()
	case script.SlotPool.Name:
		return "slot", l.core.Detail()
	}
	return "", ""
}

// String says which lock the lease is on, with its token, and how long it lasts or why it ended:
// `lease on mutex "a" with token 7, held for another 29.7s`.
func (l *Lease) String() string {
	text := "lease on " + describe(l.core.Lock())
	if key, value := l.part(); key != "" {
		text += ", " + key + " " + value + ","
	}
	text += fmt.Sprintf(" with token %d", l.core.Number())
	if left := l.Remaining(); left > 0 {
		return fmt.Sprintf("%s, held for another %v", text, left.Round(time.Millisecond))
	}
	return text + ", " + l.ended()
}

// LogValue returns the lock, owner and token, and how long the lease lasts or why it ended, as a
// group.
func (l *Lease) LogValue() slog.Value {
	all := attributes(l.core.Lock())
	if key, value := l.part(); key != "" {
		all = append(all, slog.String(key, value))
	}
	all = append(all, slog.String("owner", l.Owner()), slog.Int64("token", l.core.Number()))
	if left := l.Remaining(); left > 0 {
		return slog.GroupValue(append(all, slog.String("remaining", left.Round(time.Microsecond).String()))...)
	}
	return slog.GroupValue(append(all, slog.String("ended", l.ended()))...)
}

// ended says how a lease ended that is not held.
func (l *Lease) ended() string {
	switch err, lost := l.Err(), (*LostError)(nil); {
	case errors.As(err, &lost):
		return fmt.Sprintf("lost: %v", lost.Cause)
	case errors.Is(err, ErrDetached):
		return "detached"
	}
	return "released"
}

// String returns what each of the leases says.
func (l *MultiLease) String() string {
	all := make([]string, len(l.leases))
	for i, lease := range l.leases {
		all[i] = lease.String()
	}
	return strings.Join(all, "; ")
}

// LogValue returns the leases by name, each as a group.
func (l *MultiLease) LogValue() slog.Value {
	all := make([]slog.Attr, len(l.leases))
	for i, lease := range l.leases {
		all[i] = slog.Any(lease.Name(), lease)
	}
	return slog.GroupValue(all...)
}
