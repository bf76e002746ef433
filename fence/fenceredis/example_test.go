package fenceredis_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/fence/fenceredis"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// addr is that of the Redis server of the program.
var addr string

func TestMain(m *testing.M) {
	os.Exit(redistest.Main(m, func(s *redistest.Server) { addr = s.Addr() }))
}

func ExampleSet() {
	ctx := context.Background()
	c, err := redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	client, err := redlatch.New(c, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Mutex("stock:7").Do(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		token := lease.Token()
		value, found, err := fenceredis.Get(ctx, c, "stock:7", token)
		if err != nil {
			return err
		}
		fmt.Printf("%q %v\n", value, found)
		return fenceredis.Set(ctx, c, "stock:7", "41", token, 0)
	})
	fmt.Println(err)
	fmt.Println(fenceredis.Set(ctx, c, "stock:7", "40", 1001, 0) != nil) // a token of long ago
	// Output:
	// "" false
	// <nil>
	// true
}

// A script of your own: it appends to a list, for holders that are not too late.
func ExampleMarkKey() {
	c, err := redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	script := conn.NewScript("append", fenceredis.Check+`
		local newest = stale(KEYS[2], ARGV[1], 0)
		if newest then return newest end
		redis.call('RPUSH', KEYS[1], ARGV[2])
		return 'OK'`)
	mark, err := fenceredis.MarkKey("journal")
	if err != nil {
		log.Fatal(err)
	}
	add := func(token, entry string) conn.Reply {
		call := conn.Call{Script: script, Keys: []string{"journal", mark}, Args: []string{token, entry}}
		result := c.Eval(context.Background(), call)[0]
		if result.Err != nil {
			log.Fatal(result.Err)
		}
		return result.Reply
	}
	fmt.Println(mark)
	fmt.Println(add("1002", "of the second holder").Text)
	fmt.Println("refused, the newest is", add("1001", "of the first").Int)
	// Output:
	// {journal}:mark
	// OK
	// refused, the newest is 1002
}
