// Package a takes locks in right and in wrong ways.
package a

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/redlatch/redlatch"
)

func work(context.Context) error { return nil }

// Thrown away.

func thrownAway(ctx context.Context, m *redlatch.Mutex) {
	m.Lock(ctx)                                                      // want `the lease of Mutex.Lock is discarded`
	go m.Lock(ctx)                                                   // want `the lease of Mutex.Lock is discarded`
	defer m.TryLock(ctx)                                             // want `the lease of Mutex.TryLock is discarded`
	_, _ = m.Lock(ctx)                                               // want `the lease of Mutex.Lock is discarded`
	if _, err := m.TryLock(ctx); errors.Is(err, redlatch.ErrTaken) { // want `the lease of Mutex.TryLock is discarded`
		return
	}
	var _, err = m.TryLock(ctx) // want `the lease of Mutex.TryLock is discarded`
	log.Print(err)
}

func slotsAndMore(ctx context.Context, c *redlatch.Client) error {
	_, err := c.SlotPool("ids", 10).Acquire(ctx) // want `the lease of SlotPool.Acquire is discarded`
	if err != nil {
		return err
	}
	_, err = c.MultiMutex("a", "b").Lock(ctx) // want `the lease of MultiMutex.Lock is discarded`
	return err
}

// There is no Do that adopts, or that campaigns.

func adopted(ctx context.Context, c *redlatch.Client, text string) {
	c.Adopt(ctx, text)                              // want `the lock stays taken: release it$`
	term, err := c.Election("a").Campaign(ctx, "b") // want `is never released: defer term.Release$`
	if err == nil {
		log.Print(term.Token())
	}
}

// A lease on several names, one of which is lost, still has the others.

func severalOneOfWhichIsLost(ctx context.Context, m *redlatch.MultiMutex) error {
	lease, err := m.Lock(ctx) // want `the lease of MultiMutex.Lock is not released on all paths`
	if err != nil {
		return err
	}
	if !lease.Held() {
		return nil
	}
	return lease.Release(ctx)
}

func severalWithATokenOf0(ctx context.Context, m *redlatch.MultiMutex) error {
	lease, err := m.Lock(ctx) // want `the lease of MultiMutex.Lock is not released on all paths`
	if err != nil {
		return err
	}
	if lease.Token("a") == 0 {
		return nil
	}
	return lease.Release(ctx)
}

func severalWithAnError(ctx context.Context, m *redlatch.MultiMutex) error {
	lease, err := m.Lock(ctx) // want `the lease of MultiMutex.Lock is not released on all paths`
	if err != nil {
		return err
	}
	if err := lease.Err(); err != nil {
		return err
	}
	return lease.Release(ctx)
}

// Never released.

func never(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.Lock(ctx) // want `the lease of Mutex.Lock is never released`
	if err != nil {
		return err
	}
	return work(lease.Context())
}

func neverByVar(ctx context.Context, m *redlatch.Mutex) {
	var lease, err = m.Lock(ctx) // want `the lease of Mutex.Lock is never released`
	if err == nil {
		log.Print(lease.Token())
	}
}

func neverInALiteral(m *redlatch.Mutex) func(context.Context) {
	return func(ctx context.Context) {
		lease, err := m.Lock(ctx) // want `the lease of Mutex.Lock is never released`
		if err == nil && lease.Held() {
			log.Print(lease.Token())
		}
	}
}

func slotOfNoUse(ctx context.Context, p *redlatch.SlotPool) (int, error) {
	slot, err := p.Acquire(ctx) // want `the lease of SlotPool.Acquire is never released`
	if err != nil {
		return 0, err
	}
	return slot.ID()
}

func notExtended(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.Lock(ctx) // want `the lease of Mutex.Lock is not released on all paths`
	if err != nil {
		return err
	}
	if err := lease.Extend(ctx); err != nil {
		return err // Redis may be out of reach, and the lease held
	}
	return lease.Release(ctx)
}

func main() {
	lease, err := new(redlatch.Mutex).Lock(context.Background()) // want `the lease of Mutex.Lock is never released`
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Token())
}

// Not on all paths.

func anotherError(ctx context.Context, m *redlatch.Mutex, name string) error {
	lease, err := m.Lock(ctx) // want `the lease of Mutex.Lock is not released on all paths`
	if err != nil {
		return err
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	defer lease.Release(ctx)
	return work(lease.Context())
}

func earlyReturn(ctx context.Context, m *redlatch.Mutex, skip bool) error {
	lease, err := m.TryLock(ctx) // want `the lease of Mutex.TryLock is not released on all paths`
	switch {
	case errors.Is(err, redlatch.ErrTaken):
		return nil
	case err != nil:
		return err
	}
	if skip {
		return nil
	}
	return lease.Release(ctx)
}

func loop(ctx context.Context, m *redlatch.Mutex) {
	for {
		lease, err := m.TryLock(ctx) // want `the lease of Mutex.TryLock is not released on all paths`
		if err != nil {
			continue
		}
		if work(lease.Context()) != nil {
			continue
		}
		lease.Release(ctx)
	}
}

func overwritten(ctx context.Context, m, other *redlatch.Mutex) error {
	lease, err := m.Lock(ctx) // want `the lease of Mutex.Lock is not released on all paths`
	if err != nil {
		return err
	}
	lease, err = other.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// Right.

func released(ctx context.Context, m *redlatch.Mutex) (err error) {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release(ctx)) }()
	return work(lease.Context())
}

func tried(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.TryLock(ctx)
	if errors.Is(err, redlatch.ErrTaken) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return nil
}

func triedInSwitch(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.TryLock(ctx)
	switch {
	case err == nil:
	case !errors.Is(err, redlatch.ErrTaken), ctx.Err() != nil:
		return err
	default:
		return nil
	}
	return lease.Release(ctx)
}

func ifHeld(ctx context.Context, m *redlatch.Mutex) {
	if lease, err := m.TryLock(ctx); err == nil {
		lease.Release(ctx)
	}
	lease, _ := m.TryLock(ctx)
	if lease == nil {
		return
	}
	lease.Release(ctx)
}

func notHeldAnyMore(ctx context.Context, p *redlatch.SlotPool) error {
	slot, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	id, err := slot.ID()
	if err != nil {
		return err
	}
	log.Print(id)
	if !slot.Held() {
		return nil
	}
	if err := slot.Err(); err != nil {
		return err
	}
	return slot.Release(ctx)
}

func notHeldByItsAnswers(ctx context.Context, m *redlatch.Mutex, hurry bool) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if lease.Err() != nil {
		return lease.Err()
	}
	if hurry && lease.Token() == 0 {
		return nil
	}
	token := lease.Token()
	if 0 == token {
		return nil
	}
	if token <= 0 || 0 >= lease.Token() || lease.Remaining() == 0 {
		return nil
	}
	if err := lease.Extend(ctx); errors.Is(err, redlatch.ErrNotHeld) {
		return err
	}
	if lease.Err() == nil && lease.Token() > 0 {
		return lease.Release(ctx)
	}
	return nil
}

func notHeldInOtherWords(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if lease.Token() < 1 {
		return errors.New("lost")
	}
	return lease.Release(ctx)
}

func heldSwitched(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	switch lease.Token() {
	case 0:
		return nil
	}
	return lease.Release(ctx)
}

func heldRemembered(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if held := lease.Held(); !held {
		return nil
	}
	return lease.Release(ctx)
}

func heldByItsAnswers(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.Lock(ctx) // want `the lease of Mutex.Lock is not released on all paths`
	if err != nil {
		return err
	}
	token := lease.Token()
	if lease.Err() == nil && token > 0 {
		return nil
	}
	return lease.Release(ctx)
}

func newerThan(ctx context.Context, m *redlatch.Mutex, last int64) error {
	lease, err := m.Lock(ctx) // want `the lease of Mutex.Lock is not released on all paths`
	if err != nil {
		return err
	}
	if lease.Token() == last {
		return nil
	}
	return lease.Release(ctx)
}

func bothMustHold(ctx context.Context, m *redlatch.Mutex, hurry bool) error {
	lease, err := m.Lock(ctx)
	if err != nil || lease == nil {
		return err
	}
	return lease.Release(ctx)
}

func again(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.TryLock(ctx)
	for err != nil && ctx.Err() == nil {
		lease, err = m.TryLock(ctx)
	}
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

func returned(ctx context.Context, m *redlatch.Mutex) (*redlatch.Lease, error) {
	lease, err := m.Lock(ctx)
	if err != nil {
		return nil, err
	}
	return lease, nil
}

func returnedByName(ctx context.Context, m *redlatch.Mutex) (lease *redlatch.Lease, err error) {
	lease, err = m.Lock(ctx)
	return
}

func handedOn(ctx context.Context, m *redlatch.Mutex) (*redlatch.Lease, error) { return m.Lock(ctx) }

type holder struct {
	lease *redlatch.Lease
	err   error
}

func stored(ctx context.Context, m *redlatch.Mutex, h *holder, all chan<- holder) {
	h.lease, h.err = m.Lock(ctx)
	lease, err := m.Lock(ctx)
	all <- holder{lease, err}
	other, err := m.Lock(ctx)
	if err == nil {
		h.lease = other
	}
}

func resigned(ctx context.Context, e *redlatch.Election) error {
	term, err := e.Campaign(ctx, "here")
	if err != nil {
		return err
	}
	return term.Release(ctx)
}

func captured(ctx context.Context, m *redlatch.Mutex) (func(), error) {
	lease, err := m.Lock(ctx)
	if err != nil {
		return nil, err
	}
	return func() { lease.Release(ctx) }, nil
}

func untilTheEnd(ctx context.Context, m *redlatch.Mutex) {
	lease, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for lease.Held() {
		if work(lease.Context()) != nil {
			os.Exit(1)
		}
	}
	lease.Release(ctx)
}

func onPurpose(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	_ = lease // for as long as the process lives
	return nil
}

func switchOnTheError(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.TryLock(ctx)
	switch err {
	case nil:
		return lease.Release(ctx)
	default:
		return err
	}
}

func remembered(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.TryLock(ctx)
	ok := err == nil
	if !ok {
		return err
	}
	return lease.Release(ctx)
}

func storedError(ctx context.Context, m *redlatch.Mutex, errs []error) {
	var lease *redlatch.Lease
	lease, errs[0] = m.Lock(ctx)
	if errs[0] != nil {
		return
	}
	lease.Release(ctx)
}

func takenByType(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.TryLock(ctx)
	lost := errors.Is(err, redlatch.ErrNotHeld)
	if _, taken := errors.AsType[*redlatch.TakenError](err); taken || lost {
		return nil
	}
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

func neverByType(ctx context.Context, m *redlatch.Mutex) error {
	lease, err := m.TryLock(ctx) // want `the lease of Mutex.TryLock is never released`
	if _, taken := errors.AsType[*redlatch.TakenError](err); taken {
		return nil
	}
	if err != nil {
		return err
	}
	return work(lease.Context())
}

func askedAnotherWay(ctx context.Context, m *redlatch.Mutex, isTaken func(error) bool) {
	lease, err := m.TryLock(ctx)
	if isTaken(err) {
		return
	}
	lease.Release(ctx)
}

// Captured by a literal before the acquisition.

func capturedBefore(ctx context.Context, m *redlatch.Mutex) error {
	var lease *redlatch.Lease
	defer func() {
		if lease != nil {
			_ = lease.Release(ctx)
		}
	}()
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return work(lease.Context())
}

func addressedBefore(ctx context.Context, m *redlatch.Mutex, release func(**redlatch.Lease)) error {
	var lease *redlatch.Lease
	defer release(&lease)
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return work(lease.Context())
}

// In a literal of a variable.

var run = func(ctx context.Context, m *redlatch.Mutex) {
	_, _ = m.Lock(ctx) // want `the lease of Mutex.Lock is discarded`
}
