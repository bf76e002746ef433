// Package compat makes locks that redlatch shares with programs of another library: the two sides
// exclude each other, and wake each other's waiters.
//
//	lock, err := compat.Redisson(client, "invoice:42") // redisson.getLock("invoice:42")
//	lock, err := compat.RedissonFenced(client, "invoice:42") // redisson.getFencedLock("invoice:42")
//	lock, err := compat.Spring(client, "billing", "invoice:42") // new RedisLockRegistry(factory, "billing").obtain("invoice:42")
//
// Each takes the name by which the other library knows the lock, and returns an ordinary lock of
// the client. Every key that the other library spells must begin with the prefix of the client, so
// open the client with [redlatch.NoPrefix], or with a prefix that all of the shared locks
// begin with:
//
//	client, err := redlatch.Open(ctx, url, redlatch.Options{Prefix: redlatch.NoPrefix})
//
// A library that keeps a text under a key with SET NX PX, and tells no waiters, needs nothing of
// this package: its locks and a [redlatch.Mutex] at the same key exclude each other.
// [docs/compatibility.md] lists the libraries, what each does that another may not expect, and
// [redlatch.LockOptions].Yield, which lets waiters of other libraries in while redlatch's own stand
// in line.
//
// A lock that expires, as after a crash, wakes no waiter of Redisson. Such a waiter asks again only
// when the TTL that it read has passed, whichever library held the lock: so give shared locks a
// short TTL, such as 10s. See [Spring] for its waiters.
//
// [docs/compatibility.md]: https://github.com/redlatch/redlatch/blob/main/docs/compatibility.md
package compat

import (
	"fmt"
	"strings"

	"github.com/redlatch/redlatch"
)

// Redisson returns the lock that Redisson's getLock(name) returns, an RLock. Each lease is an
// entry, as each call of lock() is; a goroutine enters again with the context of its lease.
//
// A release that leaves the lock free wakes the waiters of Redisson at once, and a waiter of
// redlatch hears of a release by Redisson. The Redis user needs the channel
// redisson_lock__channel:*.
//
// name is the whole name, as Redisson's NameMapper makes it if there is one. The error matches
// [redlatch.ErrInvalid] if the name does not begin with the client's prefix. Anything else that
// makes the lock unusable, such as a quorum, is the error of its first use.
func Redisson(c *redlatch.Client, name string) (*redlatch.ReentrantMutex, error) {
	rest, err := under(c, name)
	if err != nil {
		return nil, err
	}
	return c.ReentrantMutex(rest).With(redlatch.LockOptions{Announce: redlatch.Announce{
		Channel: tagged("redisson_lock__channel", name), Message: "0", Sharded: true,
	}}), nil
}

// RedissonFenced returns the lock that Redisson's getFencedLock(name) returns, an RFencedLock. Its
// leases have tokens of the same counter, so those of both sides are in one order: each is larger
// than all before it. Redisson takes a token for each entry, redlatch one for all entries of an
// owner.
//
// Programs must not use Redisson and RedissonFenced for one name. The leases of Redisson have tokens
// of another counter, and so has a waiter of RedissonFenced that the release of one of them lets in:
// the next holder may have a smaller token.
//
// The counter is Redisson's: redisson_lock_token:{name}, a key without an expiry, and redlatch
// gives it none. See [redlatch.LockOptions].FenceKey. Everything else is as in [Redisson].
func RedissonFenced(c *redlatch.Client, name string) (*redlatch.ReentrantMutex, error) {
	m, err := Redisson(c, name)
	if err != nil {
		return nil, err
	}
	return m.With(redlatch.LockOptions{FenceKey: tagged("redisson_lock_token", name)}), nil
}

// Spring returns the lock that obtain(lockKey) of a Spring Integration RedisLockRegistry with this
// registryKey returns. A registry of the type PUB_SUB_LOCK is woken by a release of redlatch, and
// wakes a waiter of redlatch; one of the type SPIN_LOCK asks every 100 ms by default. A waiter of
// PUB_SUB_LOCK that no release wakes, as after a crash, asks again when the expireAfter of its
// registry has passed, 60 s by default, whatever the TTL of the lock. The Redis user needs the
// channel registryKey-channel:*.
//
// The lock is reentrant within a registry, and not in redlatch. The error matches
// [redlatch.ErrInvalid] if registryKey and lockKey, joined by a colon, do not begin with the
// client's prefix. Anything else that makes the lock unusable is the error of its first use.
func Spring(c *redlatch.Client, registryKey, lockKey string) (*redlatch.Mutex, error) {
	key := registryKey + ":" + lockKey
	rest, err := under(c, key)
	if err != nil {
		return nil, err
	}
	return c.Mutex(rest).With(redlatch.LockOptions{
		Announce: redlatch.Announce{Channel: registryKey + "-channel:" + key, Message: key},
		Linger:   redlatch.None, // as a default of the client it is for its other locks
	}), nil
}

// under returns the name that a lock at this key has for the client.
func under(c *redlatch.Client, key string) (string, error) {
	prefix := strings.TrimSuffix(c.Mutex("x").Key(), "x")
	name, ok := strings.CutPrefix(key, prefix)
	if !ok || name == "" {
		return "", fmt.Errorf("redlatch: %w: the key %q does not begin with the client's prefix %q, followed by a name: "+
			"open a client with redlatch.NoPrefix as Options.Prefix, or with a prefix that all shared locks begin with", redlatch.ErrInvalid, key, prefix)
	}
	return name, nil
}

// tagged returns a name in the hash slot of another, as Redisson spells it.
func tagged(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}
