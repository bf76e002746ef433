package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// failover is a workload of waiting for a lock whose holder, another process, is killed.
type failover struct{ ttl time.Duration }

// failoverName is the lock's.
const failoverName = "failover"

// hold is the whole of the process that is killed: it locks, says so and waits.
func hold() error {
	name, to := os.Args[2], target{oneServer, []string{os.Args[3]}}
	ttl, err := time.ParseDuration(os.Args[4])
	if err != nil {
		return err
	}
	i := slices.IndexFunc(systems, func(s system) bool { return s.name == name })
	l, err := systems[i].open(to, ttl)
	if err != nil {
		return err
	}
	if _, err := l.lock(context.Background(), failoverName); err != nil {
		return err
	}
	fmt.Println("held")
	select {}
}

func (w failover) run(d *deployment, sys system) (sample, error) {
	d.clear()
	server := d.servers[0]
	holder, err := start("hold", sys.name, server.Addr(), w.ttl.String())
	if err != nil {
		return nil, err
	}
	defer holder.kill()
	if err := await(holder.out, "held"); err != nil {
		return nil, err
	}
	l, err := sys.open(d.target(), w.ttl)
	if err != nil {
		return nil, err
	}
	defer l.close()
	type outcome struct {
		held held
		err  error
		at   time.Time
	}
	got := make(chan outcome, 1)
	go func() {
		h, err := l.lock(context.Background(), failoverName)
		got <- outcome{h, err, time.Now()}
	}()
	time.Sleep(w.ttl / 10) // it waits
	killed := time.Now()
	if err := holder.Process.Kill(); err != nil {
		return nil, err
	}
	left := remaining(server, w.ttl)
	var o outcome
	if err := within(patienceWithPeers, "the wait for the lock of the dead", func() { o = <-got }); err != nil {
		return nil, err
	}
	if o.err != nil {
		return nil, o.err
	}
	o.held.release()
	took := o.at.Sub(killed)
	return sample{"without": float64(took.Milliseconds()), "late": float64((took - left).Microseconds()) / 1000}, nil
}

// remaining is how long the lock's key still lives: of those that a library has, the one that lives
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
