package fencing

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fencesql"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestSQLGuard tries the guard on every database that is installed. Each server is started once.
func TestSQLGuard(t *testing.T) {
	t.Parallel()
	for name, startServer := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startServer(t)
			for _, try := range []struct {
				name string
				f    func(*testing.T, database)
			}{
				{"TablesAreCreatedTogether", wantCreatedTogether},
				{"LateWriteIsRefused", wantLateWriteRefused},
				{"NewerIsNeverOverwritten", wantNeverOverwritten},
				{"OldSnapshotDoesNotLetThrough", wantOldSnapshotRefused},
				{"RollbackForgets", wantForgottenByRollback},
				{"NamesAreNotAlike", wantNamesApart},
			} {
				t.Run(try.name, func(t *testing.T) { try.f(t, d) })
			}
		})
	}
}

// wantLateWriteRefused has the guard in a database: once as a table, once as a column. Another
// connection than that of the newer token comes late.
func wantLateWriteRefused(t *testing.T, d database) {
	l := newLedger(t, d)
	late := *l
	late.db = d.connect(t)
	for name, by := range map[string]func(l *ledger, token int64) error{
		"table": func(l *ledger, token int64) error {
			return check.ErrorOf(l.write(t.Context(), sql.LevelDefault, "a", token))
		},
		"column": func(l *ledger, token int64) error { return l.writeByColumn(t.Context(), "a", token) },
	} {
		check.OK(t, name, by(&late, 5))
		check.OK(t, name, by(l, 5))
		check.OK(t, name, by(l, 7))
		check.Error(t, "a late write by "+name, by(&late, 5), fence.ErrStale)
		check.Error(t, "a write without a token by "+name, by(&late, 0), fence.ErrStale)
		check.Equal(t, check.Value(l.token(t.Context())).OK(t), 7, "the token of the last write by %s", name)
	}
}

// levels are the isolation levels that a database has.
func levels(d database) []sql.IsolationLevel {
	if d.Dialect == fencesql.SQLite {
		return []sql.IsolationLevel{sql.LevelDefault}
	}
	return []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}
}

// wantCreatedTogether: all instances of a service start at once, and each creates the table.
func wantCreatedTogether(t *testing.T, d database) {
	db := d.connect(t)
	table := check.Value(fencesql.New(d.Dialect, "order")).OK(t) // a keyword
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			check.Nil(t, "Create", table.Create(t.Context(), db))
		})
	}
	wg.Wait()
}

// wantNeverOverwritten has many transactions with mixed tokens at once, each of which writes its
// token. An error of the database is what users would run the transaction again for.
func wantNeverOverwritten(t *testing.T, d database) {
	const writers, writes, tokens = 8, 12, 40
	for _, level := range levels(d) {
		l := newLedger(t, d)
		name := "a" + level.String()
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				for j := range writes {
					token := int64((i*writes+j)*37%tokens + 1)
					before, err := l.writeAgain(t.Context(), level, name, token)
					check.That(t, err != nil || before <= token, "%v: token %d overwrote %d", level, token, before)
					check.That(t, err == nil || errors.Is(err, fence.ErrStale), "%v: write = %v", level, err)
				}
			})
		}
		wg.Wait()
		if last, err := l.token(t.Context()); err != nil || last != tokens {
			t.Errorf("%v: the last write was that of %d, %v, want %d", level, last, err, tokens)
		}
	}
}

// wantOldSnapshotRefused: in a transaction that read before, a plain SELECT finds what was there
// then. If the check did, too, it would let an old token through.
func wantOldSnapshotRefused(t *testing.T, d database) {
	ctx := t.Context()
	for _, level := range levels(d) {
		l := newLedger(t, d)
		name := "snapshot " + level.String()
		check.OK(t, "write", check.ErrorOf(l.write(ctx, level, name, 5)))
		tx := check.Value(l.db.BeginTx(ctx, &sql.TxOptions{Isolation: level})).OK(t)
		var seen int64
		if err := tx.QueryRowContext(ctx, l.spell("SELECT token FROM fence WHERE name = ?"), "other").Scan(&seen); !errors.Is(err, sql.ErrNoRows) {
			t.Fatal(err)
		}
		check.OK(t, "write", check.ErrorOf(l.write(ctx, sql.LevelDefault, name, 7)))
		err := l.table.Check(ctx, tx, name, 6)
		check.That(t, err != nil, "%v: token 6 passed after 7", level)
		var failure *pgconn.PgError
		if d.Dialect == fencesql.PostgreSQL && level != sql.LevelReadCommitted && (!errors.As(err, &failure) || failure.Code != "40001") {
			t.Errorf("%v: Check = %v, want PostgreSQL's own serialization failure", level, err)
		}
		check.That(t, level != sql.LevelReadCommitted || errors.Is(err, fence.ErrStale), "%v: Check = %v, want ErrStale", level, err)
		check.Nil(t, "Rollback", tx.Rollback())
	}
}

// wantForgottenByRollback: a holder whose transaction failed has written nothing, and must not shut
// out one that did no less.
func wantForgottenByRollback(t *testing.T, d database) {
	l := newLedger(t, d)
	tx := check.Value(l.db.BeginTx(t.Context(), nil)).OK(t)
	check.OK(t, "Check", l.table.Check(t.Context(), tx, "rollback", 7))
	check.OK(t, "Rollback", tx.Rollback())
	check.Nil(t, "write", check.ErrorOf(l.write(t.Context(), sql.LevelDefault, "rollback", 6)))
	_, err := l.write(t.Context(), sql.LevelDefault, "rollback", 5)
	check.As(t, "write", err, fence.StaleError{Name: "rollback", Token: 5, Current: 6})
}

// wantNamesApart: MySQL's text would take some of these for the same name.
func wantNamesApart(t *testing.T, d database) {
	l := newLedger(t, d)
	long := strings.Repeat("x", 511)
	for i, name := range []string{"n", "N", "n ", "ñ", "n\u0303", "名前", long + "y", long + "z", "'; DROP TABLE fence; --"} {
		check.Nil(t, fmt.Sprintf("write under %q", name), check.ErrorOf(l.write(t.Context(), sql.LevelDefault, name, int64(100-i))))
	}
}
