package fencesql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fencesql"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

func TestTableNamesAreIdentifiers(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{
		"fence": true, "app.fence": true, "_f2": true, "order": true, strings.Repeat("a", 63): true,
		"": false, ".": false, "a.": false, ".a": false, "a.b.c": false, "2a": false, "Fence": false, "a b": false, `a"b`: false,
		"a`b": false, "a;b": false, "a\n": false, "é": false, strings.Repeat("a", 64): false,
	} {
		for _, d := range []fencesql.Dialect{fencesql.PostgreSQL, fencesql.MySQL, fencesql.SQLite} {
			_, err := fencesql.New(d, name)
			if (err == nil) != valid || err != nil && !errors.Is(err, fence.ErrInvalid) {
				t.Errorf("New(%v, %q) = %v, want valid: %v", d, name, err, valid)
			}
		}
	}
}

func TestTheZeroDialectIsRefused(t *testing.T) {
	t.Parallel()
	for _, d := range []fencesql.Dialect{-1, 0, 4} {
		check.Error(t, fmt.Sprintf("New(%v)", d), check.ErrorOf(fencesql.New(d, "fence")), fence.ErrInvalid)
	}
}

// TestBadInputIsNotSent: neither a lease that is not held nor a name that a column would cut off
// needs the database.
func TestBadInputIsNotSent(t *testing.T) {
	t.Parallel()
	db, table := &database{}, newTable(t)
	tx := db.begin(t)
	for _, token := range []int64{0, -1} {
		check.As(t, "Check", table.Check(t.Context(), tx, "a", token), fence.StaleError{Name: "a", Token: token})
	}
	for _, name := range []string{"", strings.Repeat("a", 513)} {
		check.Error(t, fmt.Sprintf("Check of a name of %d bytes", len(name)), table.Check(t.Context(), tx, name, 1), fence.ErrInvalid)
	}
	check.That(t, len(db.sent) <= 0, "sent %q, want nothing", db.sent)
}

// TestTheDatabasesErrorIsKept: a caller that retries serialization failures must be able to tell
// them.
func TestTheDatabasesErrorIsKept(t *testing.T) {
	t.Parallel()
	failure := errors.New("SQLSTATE 40001")
	db, table := &database{err: failure}, newTable(t)
	err := table.Check(t.Context(), db.begin(t), "a", 1)
	check.That(t, errors.Is(err, failure) && !errors.Is(err, fence.ErrStale), "Check = %v, want the error of the database and not ErrStale", err)
	check.Error(t, "Create", table.Create(t.Context(), db.open(t)), failure)
}

func TestANewerTokenInTheTableRefuses(t *testing.T) {
	t.Parallel()
	db, table := &database{stored: 7}, newTable(t)
	tx := db.begin(t)
	check.As(t, "Check", table.Check(t.Context(), tx, "a", 6), fence.StaleError{Name: "a", Token: 6, Current: 7})
	check.Nil(t, "Check", table.Check(t.Context(), tx, "a", 7))
}

func newTable(t *testing.T) *fencesql.Table {
	t.Helper()
	return check.Value(fencesql.New(fencesql.PostgreSQL, "fence")).OK(t)
}

// database answers every statement with the same error or row.
type database struct {
	err    error
	stored int64

	mu   sync.Mutex // guards sent
	sent []string
}

func (d *database) open(t *testing.T) *sql.DB {
	t.Helper()
	db := sql.OpenDB(d)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (d *database) begin(t *testing.T) *sql.Tx {
	t.Helper()
	return check.Value(d.open(t).BeginTx(t.Context(), nil)).OK(t)
}

func (d *database) Connect(context.Context) (driver.Conn, error) { return d, nil }
func (d *database) Driver() driver.Driver                        { return nil }
func (d *database) Begin() (driver.Tx, error)                    { return d, nil }
func (d *database) Commit() error                                { return nil }
func (d *database) Rollback() error                              { return nil }
func (d *database) Close() error                                 { return nil }

func (d *database) Prepare(statement string) (driver.Stmt, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sent = append(d.sent, statement)
	return prepared{d}, nil
}

type prepared struct{ *database }

func (p prepared) NumInput() int                              { return -1 }
func (p prepared) Exec([]driver.Value) (driver.Result, error) { return driver.RowsAffected(1), p.err }

func (p prepared) Query([]driver.Value) (driver.Rows, error) {
	if p.err != nil {
		return nil, p.err
	}
	return &row{token: p.stored}, nil
}

type row struct {
	token int64
	read  bool
}

func (r *row) Columns() []string { return []string{"token"} }
func (r *row) Close() error      { return nil }

func (r *row) Next(to []driver.Value) error {
	if r.read {
		return io.EOF
	}
	to[0], r.read = r.token, true
	return nil
}
