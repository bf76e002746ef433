package redlatchcertmagic_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/caddyserver/certmagic"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/adapters/redlatchcertmagic"
)

// Certificates stay in files on a shared disk, and processes lock each other out over Redis.
func ExampleWrap() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	dir, err := os.MkdirTemp("", "certificates")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	certmagic.Default.Storage = redlatchcertmagic.Wrap(&certmagic.FileStorage{Path: dir}, client, redlatchcertmagic.Options{})
	config := certmagic.NewDefault()
	fmt.Println("renews with it, too:", certmagic.NewDefault().Storage == config.Storage)

	// What certmagic does around each certificate:
	if err := config.Storage.Lock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("obtaining")
	if err := config.Storage.Unlock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// renews with it, too: true
	// obtaining
}
