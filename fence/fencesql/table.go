package fencesql

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"

	"github.com/redlatch/redlatch/fence"
)

// maxName is the longest name that all databases store in full, in bytes; also the longest that
// redlatch takes.
const maxName = 512

// Table is a guard table: the newest token seen for each name. Make it with [New]; it is immutable,
// needs no database until it is used, and is safe for concurrent use.
type Table struct {
	name       string
	statements statements
}

// New describes a guard table. The name has lower-case letters, digits and underscores, at most 63,
// and may have a schema or database in front ("app.fence"). Any other name, or an unknown dialect,
// is refused with an error that matches [fence.ErrInvalid].
func New(d Dialect, table string) (*Table, error) {
	if d < PostgreSQL || d > SQLite {
		return nil, fmt.Errorf("redlatch: guard table %q: dialect %d is %w: use PostgreSQL, MySQL or SQLite", table, int(d), fence.ErrInvalid)
	}
	parts, identifier := strings.Split(table, "."), regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
	for i, part := range parts {
		if !identifier.MatchString(part) || len(parts) > 2 {
			return nil, fmt.Errorf("redlatch: guard table: the name %q is %w: use lower-case letters, digits and underscores, as in \"fence\" "+
				"or \"app.fence\"", table, fence.ErrInvalid)
		}
		parts[i] = d.quote(part)
	}
	return &Table{name: table, statements: d.write(strings.Join(parts, "."))}, nil
}

// DDL returns the statement that creates the table if it is missing, for a migration file.
func (t *Table) DDL() string { return t.statements.create }

// Create creates the table if it is missing, and returns when it is there. Several processes may
// call it at once. The error is that of the database, such as a missing right; then nothing was
// created.
func (t *Table) Create(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, t.statements.create)
	if err == nil {
		return nil
	}
	// PostgreSQL lets one of two that create a table at the same time fail, IF NOT EXISTS or not.
	if rows, again := db.QueryContext(ctx, t.statements.exists); again == nil {
		return rows.Close()
	}
	return fmt.Errorf("redlatch: create the guard table %q: %w", t.name, err)
}

// Check returns nil if the token is not older than the newest seen for the name, and remembers it,
// all within tx: until tx ends, it keeps the row locked and other checks of the name waiting, and
// if tx is rolled back the token is forgotten again.
//
// Otherwise, or if the token is not positive, it returns a [*fence.StaleError]; roll back. A name
// that is empty or longer than 512 bytes is refused with an error that matches [fence.ErrInvalid].
// Any other error is that of the database, and leaves open whether the token is stale; roll back,
// and run the transaction again if that is what the database's error calls for.
func (t *Table) Check(ctx context.Context, tx *sql.Tx, name string, token int64) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("redlatch: check a token in table %q: the name is %d bytes long, which is %w: use 1 to %d",
			t.name, len(name), fence.ErrInvalid, maxName)
	}
	if token <= 0 {
		return &fence.StaleError{Name: name, Token: token}
	}
	newest, err := t.raise(ctx, tx, name, token)
	if err != nil {
		return fmt.Errorf("redlatch: check token %d of %q in table %q: %w", token, name, t.name, err)
	}
	if newest > token {
		return &fence.StaleError{Name: name, Token: token, Current: newest}
	}
	return nil
}

// raise stores the token if it is the newest, locks the row in any case, and returns what is
// stored.
func (t *Table) raise(ctx context.Context, tx *sql.Tx, name string, token int64) (newest int64, err error) {
	if t.statements.read == "" {
		err = tx.QueryRowContext(ctx, t.statements.raise, name, token).Scan(&newest)
		return newest, err
	}
	if _, err := tx.ExecContext(ctx, t.statements.raise, name, token, token); err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, t.statements.read, name).Scan(&newest)
	return newest, err
}
