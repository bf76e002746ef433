package conn_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// What redlatch asks of an adapter: to run scripts in one batch, and to tell a refusal of the server
// from a request without an answer.
func ExampleCall() {
	dir, err := os.MkdirTemp("", "conn")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, err := redistest.Launch(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	c, err := redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	count := conn.NewScript("count", "return redis.call('INCRBY', KEYS[1], ARGV[1])")
	results := c.Eval(context.Background(),
		conn.Call{Script: count, Keys: []string{"n"}, Args: []string{"7"}},
		conn.Call{Script: count, Keys: []string{"n"}, Args: []string{"many"}},
	)
	var refused *conn.ReplyError
	fmt.Println("reply:", results[0].Reply.Int)
	fmt.Println("refused by the server:", errors.As(results[1].Err, &refused))
	// Output:
	// reply: 7
	// refused by the server: true
}

func ExampleObserve() {
	resent := 0
	observe := func(c conn.Conn) conn.Conn {
		return conn.Observe(c, func(_ context.Context, r conn.Request) { resent += r.Resent })
	}
	client, err := redlatch.Open(context.Background(), "redis://localhost:6379", redlatch.Options{WrapConn: observe})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(resent)
}
