package zz

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

var script = conn.NewScript("x", "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 10000)")

func viaGo(ctx context.Context, c conn.Conn, calls ...conn.Call) []conn.Result {
	done := make(chan []conn.Result, 1)
	go func() { done <- c.Eval(ctx, calls...) }()
	select {
	case r := <-done:
		return r
	case <-ctx.Done():
		return nil
	}
}

type noDeadline struct{ context.Context }

func (noDeadline) Deadline() (time.Time, bool) { return time.Time{}, false }

func Benchmark(b *testing.B) {
	s := redistest.Start(b)
	for _, par := range []int{1, 128} {
		for _, mode := range []string{"direct", "go"} {
			for _, d := range []string{"cancel", "deadline", "hidden"} {
				for _, pipelining := range []bool{false, true} {
					c, err := redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{s.Addr()}, AlwaysPipelining: pipelining})
					if err != nil {
						b.Fatal(err)
					}
					name := mode + "/" + d
					if pipelining {
						name += "/pipe"
					}
					b.Run(name+"/"+string(rune('0'+par%10)), func(b *testing.B) {
						b.SetParallelism((par + 1) / 2)
						one := func() {
							ctx, cancel := context.WithCancel(context.Background())
							if d != "cancel" {
								ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
							}
							if d == "hidden" {
								ctx = noDeadline{ctx}
							}
							defer cancel()
							call := conn.Call{Script: script, Keys: []string{"k"}, Args: []string{"v"}}
							if mode == "go" {
								viaGo(ctx, c, call)
							} else {
								c.Eval(ctx, call)
							}
						}
						if par == 1 {
							for b.Loop() {
								one()
							}
							return
						}
						b.RunParallel(func(pb *testing.PB) {
							for pb.Next() {
								one()
							}
						})
					})
					c.Close()
				}
			}
		}
	}
}
