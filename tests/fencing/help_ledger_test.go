package fencing

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fencesql"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
)

// ledger is a row that a lock protects, in a database: by a guard table, or by a column of its own.
type ledger struct {
	database
	db    *sql.DB
	table *fencesql.Table
}

// newLedger creates the tables.
func newLedger(t testing.TB, d database) *ledger {
	t.Helper()
	l := &ledger{d, d.connect(t), check.Value(fencesql.New(d.Dialect, "fence")).OK(t)}
	check.OK(t, "Create", l.table.Create(t.Context(), l.db))
	for _, statement := range []string{
		"DROP TABLE IF EXISTS entry",
		"CREATE TABLE entry (id int PRIMARY KEY, token bigint NOT NULL, fence bigint NOT NULL DEFAULT 1)",
		"INSERT INTO entry (id, token) VALUES (7, 0)",
	} {
		check.OK(t, statement, check.ErrorOf(l.db.ExecContext(t.Context(), statement)))
	}
	return l
}

// token is that of the last write.
func (l *ledger) token(ctx context.Context) (token int64, err error) {
	err = l.db.QueryRowContext(ctx, "SELECT token FROM entry WHERE id = 7").Scan(&token)
	return token, err
}

// write writes the token into the row, if the guard table lets it. It returns what was there
// before.
func (l *ledger) write(ctx context.Context, level sql.IsolationLevel, name string, token int64) (before int64, err error) {
	tx, err := l.db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := l.table.Check(ctx, tx, name, token); err != nil {
		return 0, err
	}
	if err := tx.QueryRowContext(ctx, "SELECT token FROM entry WHERE id = 7").Scan(&before); err != nil {
		return 0, err
	}
	if _, err := tx.ExecContext(ctx, l.spell("UPDATE entry SET token = ? WHERE id = 7"), token); err != nil {
		return 0, err
	}
	return before, tx.Commit()
}

// writeByColumn writes the token into the row, if the row's own column lets it.
func (l *ledger) writeByColumn(ctx context.Context, name string, token int64) error {
	result, err := l.db.ExecContext(ctx, l.spell("UPDATE entry SET token = ?, fence = ? WHERE id = 7 AND fence <= ?"), token, token, token)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return &fence.StaleError{Name: name, Token: token}
}

// writeAgain runs the transaction of write again when the database has it fail, as users would
// after a deadlock or a serialization failure.
func (l *ledger) writeAgain(ctx context.Context, level sql.IsolationLevel, name string, token int64) (before int64, err error) {
	for deadline := time.Now().Add(locktest.Patience); time.Now().Before(deadline); {
		before, err = l.write(ctx, level, name, token)
		if err == nil || errors.Is(err, fence.ErrStale) {
			return before, err
		}
	}
	return 0, err
}
