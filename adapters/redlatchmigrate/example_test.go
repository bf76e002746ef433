package redlatchmigrate_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"testing/fstest"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/adapters/redlatchmigrate"
)

// Every instance migrates when it starts; one does the work.
func ExampleWrap() {
	client, err := redlatch.Open(context.Background(), url, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	driver, err := sqlite.WithInstance(db, &sqlite.Config{})
	if err != nil {
		log.Fatal(err)
	}
	source, err := iofs.New(fstest.MapFS{"1_account.up.sql": {Data: []byte("CREATE TABLE account (id INTEGER)")}}, ".")
	if err != nil {
		log.Fatal(err)
	}
	m, err := migrate.NewWithInstance("iofs", source, "sqlite", redlatchmigrate.Wrap(driver, client.Mutex("migrations:accounts")))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Up())
	fmt.Println(m.Version())
	// Output:
	// <nil>
	// 1 false <nil>
}
