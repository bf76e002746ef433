package redlatchrueidis_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// addr is that of the Redis server of the program, such as "localhost:6379".
var addr string

func TestMain(m *testing.M) {
	os.Exit(redistest.Main(m, func(s *redistest.Server) { addr = s.Addr() }))
}

// A program shares the rueidis client that it has. With these time limits, a connection that dies in
// silence costs no lease.
func ExampleNew() {
	o := rueidis.ClientOption{InitAddress: []string{addr}, ConnWriteTimeout: 3 * time.Second}
	o.Dialer.KeepAlive = time.Second
	mine, err := rueidis.NewClient(o)
	if err != nil {
		log.Fatal(err)
	}
	defer mine.Close()

	client, err := redlatch.New(redlatchrueidis.New(mine, addr), redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close() // leaves mine open
	err = client.Mutex("invoice:42").Do(context.Background(), func(ctx context.Context, lease *redlatch.Lease) error {
		fmt.Println("holding", lease.Name())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: holding invoice:42
}

// A connection by options of rueidis that no URL has.
func ExampleOpen() {
	c, err := redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{addr}, ClientName: "billing"})
	if err != nil {
		log.Fatal(err)
	}
	client, err := redlatch.New(c, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Mutex("invoice:42").Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(context.Background())
	fmt.Println("held:", lease.Held())
	// Output: held: true
}
