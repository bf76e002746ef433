package scenes

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// player is an actor in a role of this package. Like a test, a scene ends if it lacks what it
// needs, and what it has begun ends with it: see has and later.
type player struct {
	*world.Actor
	Ctx  context.Context // ends with the scene
	ends []func()        // what to do then, the last first
}

// plays returns a function that makes an actor play a role once.
func plays(role func(*player)) func(*world.Actor) {
	return func(actor *world.Actor) {
		ctx, cancel := context.WithCancel(actor.Ctx)
		a, over := &player{Actor: actor, Ctx: ctx}, make(chan struct{})
		go func() {
			defer close(over)
			defer func() {
				cancel()
				for _, end := range slices.Backward(a.ends) {
					end()
				}
			}()
			role(a)
		}()
		<-over
	}
}

// later notes what to do at the end of the scene, when all waits have been given up.
func (a *player) later(do func()) { a.ends = append(a.ends, do) }

// has returns a lease that the scene needs, on a free lock. If it is not granted, the scene ends.
func (a *player) has(l *redlatch.Lease, err error) *redlatch.Lease {
	a.wantDone(err, "a lock that is free")
	a.needs(err == nil)
	a.later(func() { drop(l) })
	return l
}

// needs ends the scene unless holds is true.
func (a *player) needs(holds bool) {
	if !holds {
		runtime.Goexit()
	}
}

// within returns a context that ends after d, or with the scene.
func (a *player) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(a.Ctx, d)
	a.later(cancel)
	return ctx
}

// gives releases a lease, and reports whether it was held until then.
func gives(l *redlatch.Lease) (held bool) {
	held = l.Held()
	drop(l)
	return held
}

// wantDone fails for an error that only a fault explains.
func (a *player) wantDone(err error, format string, args ...any) {
	a.Wantf(err == nil, "%s: %v", fmt.Sprintf(format, args...), err)
}

// lostBy reports whether an error says that a lease was lost in that way.
func lostBy(err error, reason redlatch.LossReason) bool {
	lost := (*redlatch.LostError)(nil)
	return errors.As(err, &lost) && lost.Reason == reason
}

// forcedFor reports whether an error says that a lease was taken by force for that reason.
func forcedFor(err error, reason string) bool {
	lost := (*redlatch.LostError)(nil)
	return errors.As(err, &lost) && lost.Reason == redlatch.LossForced && lost.Force != nil && lost.Force.Reason == reason
}

// isOver reports whether a channel is closed, such as that of a context which is done.
func isOver(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// tells reports whether a channel is closed within that time.
func tells(c <-chan struct{}, within time.Duration) bool {
	select {
	case <-c:
		return true
	case <-time.After(within):
		return false
	}
}
