// Package redlatchcertmagic gives any storage of certmagic, and so of Caddy, locks on Redis. It is
// for storage that has no locks of its own, or polls for them: files on a shared disk, an object
// store or a database. What is stored stays where it is.
//
//	certmagic.Default.Storage = redlatchcertmagic.Wrap(certmagic.Default.Storage, client, redlatchcertmagic.Options{})
//
// Do so before the first config is made. certmagic renews certificates with a config made from Default,
// even those of a config with another Storage, unless the cache has a GetConfigForCert of its own.
// All processes that share the storage must use the same locks.
//
// # When a lock is lost
//
// The lock of a process that crashed is free when its lease ends. certmagic cannot stop running
// work whose lock is lost, and has no tokens: two processes may then obtain the same certificate.
// That costs a request from the issuer's limits, and the later process to store it wins. Unlock
// returns the [*redlatch.LostError], which certmagic logs. Each further attempt of certmagic begins
// with RenewLockLease, which takes a lost lock again.
package redlatchcertmagic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/redlatch/redlatch"
)

// Options configure [Wrap]. The zero value is right.
type Options struct {
	// Prefix begins the name of each mutex, and certmagic's name of the lock follows. Default
	// "certmagic:".
	Prefix string

	// Lock says how the locks are held. Default the options of the client.
	Lock redlatch.LockOptions
}

// Storage is a storage of certmagic with locks on Redis. It is safe for concurrent use.
type Storage struct {
	certmagic.Storage // stores

	client *redlatch.Client
	o      Options

	mu     sync.Mutex
	leases map[string][]*redlatch.Lease // by certmagic's name of the lock, oldest first
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// String returns what the storage says of itself. Certmagic logs a storage, and without a String it would
// log the fields of the storage inside, passwords too.
func (s *Storage) String() string {
	if of, ok := s.Storage.(fmt.Stringer); ok {
		return of.String() + ", with locks on Redis"
	}
	return fmt.Sprintf("%T, with locks on Redis", s.Storage)
}

// Wrap returns a storage that stores in s and locks on Redis. The locks of s are not used any more.
// Wrap sends nothing.
func Wrap(s certmagic.Storage, client *redlatch.Client, o Options) *Storage {
	o.Prefix = cmp.Or(o.Prefix, "certmagic:")
	return &Storage{Storage: s, client: client, o: o, leases: make(map[string][]*redlatch.Lease)}
}

// mutex returns the mutex behind a lock of certmagic.
func (s *Storage) mutex(name string) *redlatch.Mutex {
	return s.client.Mutex(s.o.Prefix + name).With(s.o.Lock)
}

// keep notes a lease until Unlock. A name has at most one lease that is held, after those that were
// lost.
func (s *Storage) keep(name string, lease *redlatch.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leases[name] = append(s.leases[name], lease)
}

// Lock waits in line for the lock of that name, until it is held or ctx is done. It fails as
// [redlatch.Mutex.Lock] does. The lease is extended until Unlock.
func (s *Storage) Lock(ctx context.Context, name string) error {
	lease, err := s.mutex(name).Lock(ctx)
	if err != nil {
		return err
	}
	s.keep(name, lease)
	return nil
}

// TryLock takes the lock of that name if it is free, and reports whether it did. If Redis does not
// answer, the error matches [redlatch.ErrUnreachable].
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	lease, err := s.mutex(name).TryLock(ctx)
	switch {
	case errors.Is(err, redlatch.ErrTaken):
		return false, nil
	case err != nil:
		return false, err
	}
	s.keep(name, lease)
	return true, nil
}

// Unlock releases the lock of that name. The error matches [redlatch.ErrNotHeld] if the lock was
// lost before, or is not held by this storage, and [redlatch.ErrUnreachable] if Redis does not
// answer; then the client goes on trying. If one goroutine of this process has lost the lock and
// another has acquired it since, the first Unlock is for the lost lease.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	leases := s.leases[name]
	if len(leases) == 0 {
		s.mu.Unlock()
		return notHeld(name)
	}
	first := max(0, slices.IndexFunc(leases, func(l *redlatch.Lease) bool { return !l.Held() }))
	lease := leases[first]
	if s.leases[name] = slices.Delete(leases, first, first+1); len(leases) == 1 {
		delete(s.leases, name)
	}
	s.mu.Unlock()
	return lease.Release(ctx)
}

// RenewLockLease returns nil if the lock of that name is held, as Redis confirms. The watchdog of
// the client extends it for as long as it is not unlocked, so the duration does not matter. If the
// lock was lost and is free, RenewLockLease takes it again: certmagic asks at the start of an
// attempt, and then checks whether another process has done the work. Otherwise the error is that
// of [redlatch.Lease.Extend], joined with that of TryLock if the lock was lost.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	var last *redlatch.Lease
	if leases := s.leases[name]; len(leases) > 0 {
		last = leases[len(leases)-1]
	}
	s.mu.Unlock()
	if last == nil {
		return notHeld(name)
	}
	lost := last.Extend(ctx)
	if !errors.Is(lost, redlatch.ErrNotHeld) {
		return lost
	}
	again, err := s.mutex(name).TryLock(ctx)
	if err != nil {
		return errors.Join(lost, err)
	}
	if s.replace(name, last, again) {
		return nil
	}
	return errors.Join(lost, again.Release(ctx)) // another goroutine has called Unlock since
}

// replace notes a lease in place of one that was lost, and reports whether that one was still
// noted.
func (s *Storage) replace(name string, lost, by *redlatch.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.leases[name], lost)
	if i >= 0 {
		s.leases[name][i] = by
	}
	return i >= 0
}

func notHeld(name string) error {
	return fmt.Errorf("redlatchcertmagic: the lock %q is %w by this storage", name, redlatch.ErrNotHeld)
}
