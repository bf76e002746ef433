package redlatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Proclaim changes the value of the caller's own term, which [Election.Campaign] returned, such as
// an address that has moved. It returns when Redis has the value: [Election.Leader] and
// [Client.Inspect] tell it from then on, and every [Election.Observe] is told. The term goes on,
// with the same number and the same deadline. Value is as for Campaign. Of two calls at the same
// time, one stands.
//
// If the term is no longer held, or Redis says so now, the error matches [ErrNotHeld]; observers
// may have been told of the value, if an earlier request of this call got no answer. If Redis does
// not answer, it matches [ErrUnreachable]: observers may see either value. Call Proclaim again: of
// several values the last one stays, also if a request for an earlier one arrives late. A failover
// may lose a value, as it may lose a lease.
//
// A lease of another lock is refused with [ErrInvalid], and so is a term over a quorum, with
// errors.ErrUnsupported as well: a node that missed the request would go on telling the old value.
// There, resign, and campaign with the new one.
func (e *Election) Proclaim(ctx context.Context, term *Lease, value string) error {
	k := &e.latch
	if value != "" {
		if err := printable("the value of a leader", value); err != nil {
			return err
		}
	}
	if !term.core.Lock().Same(&k.Lock) {
		return invalid("proclaim a value of %q with a lease on the %s %q", e.Name(), term.core.Lock().Kind.Name, term.Name())
	}
	if !k.Kind.Proclaims() {
		return invalid("proclaim a value of %q over a quorum: %w: resign, and campaign with the new value", e.Name(), errors.ErrUnsupported)
	}
	if err := term.Err(); err != nil {
		return err
	}
	number := k.client.attempts.Add(1)
	answer, err := k.ask(ctx, "proclaim a value of", k.Kind.Proclaim(k.Keys, term.Owner(), value, number))
	if err != nil || script.Done(answer.Reply) {
		return err
	}
	if err := term.Extend(ctx); errors.Is(err, ErrNotHeld) { // which finds out why
		return err
	}
	return k.failed("proclaim a value of", fmt.Errorf("%w: Redis knows no such leader", ErrNotHeld))
}
