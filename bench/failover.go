package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// failover is a workload of waiting for a lock whose holder, another process, is killed.
type failover struct{ ttl time.Duration }

// failoverName is the name of the lock.
const failoverName = "failover"

// hold is all that the killed process does: it locks, says so and waits.
func hold() error {
	var o order
	if _, err := ordered(&o); err != nil {
		return err
	}
	l, err := named(o.System)[0].open(o.Target, o.TTL)
	if err != nil {
		return err
	}
	if _, err := l.lock(context.Background(), failoverName); err != nil {
		return err
	}
	if err := answer("held"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func (w failover) run(d *deployment, sys system) (sample, error) {
	d.clear()
	holder, _, err := start("hold", order{System: sys.name, Target: d.target, TTL: w.ttl})
	if err != nil {
		return nil, err
	}
	defer holder.kill()
	l, err := sys.open(d.target, w.ttl)
	if err != nil {
		return nil, err
	}
	defer l.close()
	var h held
	var at time.Time
	got := make(chan error, 1)
	go func() {
		var err error
		h, err = l.lock(context.Background(), failoverName)
		at = time.Now()
		got <- err
	}()
	time.Sleep(w.ttl / 10) // it waits
	killed := time.Now()
	if err := holder.Process.Kill(); err != nil {
		return nil, err
	}
	left := remaining(d.servers[0], w.ttl)
	select {
	case err = <-got:
	case <-time.After(patienceWithPeers):
		err = fmt.Errorf("the wait for the lock of the dead has not ended after %v", patienceWithPeers)
	}
	if err != nil {
		return nil, err
	}
	h.release()
	took := at.Sub(killed)
	return sample{
		"without": float64(took.Milliseconds()),
		"late":    float64((took - left).Microseconds()) / 1000,
	}, nil
}

// remaining returns how much longer the lock's key lives: of a library's keys, the one that lives
// longest within the TTL.
func remaining(server *redistest.Server, ttl time.Duration) (left time.Duration) {
	for key := range strings.Lines(server.Do("KEYS", "*"+failoverName+"*")) {
		ms, _ := strconv.Atoi(server.Do("PTTL", strings.TrimSpace(key)))
		if d := time.Duration(ms) * time.Millisecond; d <= ttl {
			left = max(left, d)
		}
	}
	return left
}
