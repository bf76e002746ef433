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
	config := certmagic.NewDefault()
	config.Storage = redlatchcertmagic.Wrap(&certmagic.FileStorage{Path: dir}, client, redlatchcertmagic.Options{})

	// What certmagic does around each certificate:
	if err := config.Storage.Lock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	fmt.Println("obtaining")
	if err := config.Storage.Unlock(ctx, "issue_cert_example.com"); err != nil {
		log.Fatal(err)
	}
	// Output: obtaining
}
