package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fenceredis"
)

// An ID is 41 bits of milliseconds since the epoch, 10 bits of worker and 12 bits of sequence.
const (
	workerBits, sequenceBits = 10, 12
	workers                  = 1 << workerBits
	perMillisecond           = 1 << sequenceBits
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// ahead is how much time a generator claims at once, so that Redis is asked once a second and not
// for every ID.
const ahead = int64(time.Second / time.Millisecond)

// errClock says that the clock shows a time that was used before, by this process or by the last
// one that had the slot. Try again later.
var errClock = errors.New("the clock is behind the last ID")

// Generator makes IDs that no other generator makes, on a slot of its own. It is safe for
// concurrent use.
//
// The slot keeps others away from its worker number while the lease is held. Across holders, the
// clock may step back, or another machine's may be behind; so Redis has, for each slot, a mark of
// the time up to which IDs may have been made, and a generator makes none at or below it. The mark
// is written before the time is used, and with the token of the slot: a holder that was suspended
// cannot move it.
type Generator struct {
	slot *redlatch.Slot
	conn conn.Conn
	key  string // of the mark
	now  func() time.Time

	mu       sync.Mutex // guards what is below
	last     int64      // ms of the last ID
	sequence int64      // of the last ID
	claimed  int64      // ms up to which IDs may be made
}

// NewGenerator reads the mark of the slot's last holder. The error matches redlatch.ErrNotHeld if
// the slot is lost.
func NewGenerator(ctx context.Context, c conn.Conn, slot *redlatch.Slot, now func() time.Time) (*Generator, error) {
	id, err := slot.ID()
	if err != nil {
		return nil, err
	}
	g := &Generator{slot: slot, conn: c, key: fmt.Sprintf("snowflake:%s:%d", slot.Name(), id), now: now}
	text, found, err := fenceredis.Get(ctx, c, g.key, slot.Token())
	if err != nil {
		return nil, lost(err)
	}
	if found {
		if g.last, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("the mark of slot %d: %w", id, err)
		}
		g.sequence = perMillisecond - 1 // the whole of that millisecond may have been used
	}
	g.claimed = g.last
	return g, nil
}

// Next makes an ID. The error matches redlatch.ErrNotHeld once the slot is lost: then get another
// slot and another generator. It is errClock if the clock is behind the last ID.
func (g *Generator) Next(ctx context.Context) (int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ms, err := g.tick()
	if err != nil {
		return 0, err
	}
	if ms > g.claimed {
		if err := g.claim(ctx, ms+ahead); err != nil {
			return 0, err
		}
	}
	// Last of all: what came before took time.
	worker, err := g.slot.ID()
	if err != nil {
		return 0, err
	}
	return ms<<(workerBits+sequenceBits) | int64(worker)<<sequenceBits | g.sequence, nil
}

// tick is the millisecond of the next ID, with mu held; its sequence number is set. It waits where
// a millisecond is used up.
func (g *Generator) tick() (int64, error) {
	for {
		ms := g.now().Sub(epoch).Milliseconds()
		switch {
		case ms < g.last:
			return 0, fmt.Errorf("%w by %v", errClock, time.Duration(g.last-ms)*time.Millisecond)
		case ms > g.last:
			g.last, g.sequence = ms, 0
			return ms, nil
		case g.sequence < perMillisecond-1:
			g.sequence++
			return ms, nil
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// claim moves the mark, with mu held. A holder of the slot that came later makes it fail, and keeps
// its own.
func (g *Generator) claim(ctx context.Context, until int64) error {
	if err := fenceredis.Set(ctx, g.conn, g.key, strconv.FormatInt(until, 10), g.slot.Token(), 0); err != nil {
		return lost(err)
	}
	g.claimed = until
	return nil
}

// lost returns err, and says that the slot is lost if its token was refused.
func lost(err error) error {
	if errors.Is(err, fence.ErrStale) {
		return fmt.Errorf("the slot is %w: %w", redlatch.ErrNotHeld, err)
	}
	return err
}
