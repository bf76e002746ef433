package fencesql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fencesql"
)

// The statement for a file of migrations.
func ExampleTable_DDL() {
	table, err := fencesql.New(fencesql.PostgreSQL, "app.fence")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(table.DDL())
	// Output: CREATE TABLE IF NOT EXISTS "app"."fence" (name text PRIMARY KEY, token bigint NOT NULL)
}

func ExampleDialect() {
	_, err := fencesql.New(fencesql.MySQL, "fence; DROP TABLE account")
	fmt.Println(fencesql.MySQL, errors.Is(err, fence.ErrInvalid))
	// Output: MySQL true
}

// A payment that only the newest holder of the lock can make.
func ExampleTable() {
	table, err := fencesql.New(fencesql.PostgreSQL, "fence")
	if err != nil {
		log.Fatal(err)
	}
	pay := func(ctx context.Context, db *sql.DB, lease fence.Lease) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := table.Check(ctx, tx, lease.Name(), lease.Token()); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance - 10 WHERE id = 7"); err != nil {
			return err
		}
		return tx.Commit()
	}

	db := sql.OpenDB(&database{stored: 1002}) // stands for a database in which a later holder has been
	defer db.Close()
	fmt.Println(pay(context.Background(), db, lease{"account:7", 1001}))
	// Output: redlatch: write refused for "account:7": token 1001 is stale, a later holder has been here with 1002; lock again and start over
}

// lease stands for a *redlatch.Lease.
type lease struct {
	name  string
	token int64
}

func (l lease) Name() string { return l.name }
func (l lease) Token() int64 { return l.token }
