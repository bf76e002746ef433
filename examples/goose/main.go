// A service that migrates its database with goose when it starts. All instances call it at the same
// time: one migrates, and the others wait and find nothing to do. goose has a context for each run,
// so no adapter is needed: under the context of the lease, a migration stops when the lock is lost.
//
// It prints how many migrations each instance has applied.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	_ "modernc.org/sqlite"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/examples/internal/server"
)

// migrations would be an embed.FS.
var migrations = fstest.MapFS{
	"1_account.sql": {Data: []byte("-- +goose Up\nCREATE TABLE account (id INTEGER PRIMARY KEY);")},
	"2_balance.sql": {Data: []byte("-- +goose Up\nALTER TABLE account ADD COLUMN balance INTEGER;")},
}

func main() {
	url, stop := server.URL()
	defer stop()
	dir, err := os.MkdirTemp("", "goose")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	var instances sync.WaitGroup
	for range 2 {
		instances.Go(func() {
			applied, err := migrate(context.Background(), url, filepath.Join(dir, "db"))
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("applied", applied)
		})
	}
	instances.Wait()
}

// migrate brings the database in that file up to date.
func migrate(ctx context.Context, url, file string) (applied int, err error) {
	client, err := redlatch.Open(ctx, url, redlatch.Options{})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return 0, err
	}
	defer db.Close()

	lock := client.Mutex("migrations:accounts").With(redlatch.LockOptions{TTL: 10 * time.Second})
	err = lock.Do(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		provider, err := goose.NewProvider(goose.DialectSQLite3, db, migrations)
		if err != nil {
			return err
		}
		results, err := provider.Up(ctx)
		applied = len(results)
		return err
	})
	return applied, err
}
