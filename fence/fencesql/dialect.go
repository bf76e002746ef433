package fencesql

import "fmt"

// Dialect is the SQL that a database speaks. The zero value is none, and is refused.
type Dialect int

// The databases. The tests run on PostgreSQL, MariaDB and SQLite.
const (
	PostgreSQL Dialect = iota + 1 // 9.5 or newer
	MySQL                         // 5.7 or newer, and MariaDB; with InnoDB
	SQLite                        // 3.35 or newer
)

// String returns the name of the database.
func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// statements are what a Table sends.
type statements struct {
	create string
	exists string
	raise  string // stores the larger token, locks the row, and answers what is stored unless read does that
	read   string // what is stored
}

// write spells the statements for a table, whose name is already quoted.
func (d Dialect) write(table string) statements {
	s := statements{exists: "SELECT token FROM " + table + " WHERE 1 = 0"}
	switch d {
	case PostgreSQL:
		s.create = "CREATE TABLE IF NOT EXISTS " + table + " (name text PRIMARY KEY, token bigint NOT NULL)"
		s.raise = "INSERT INTO " + table + " AS mark (name, token) VALUES ($1, $2)" +
			" ON CONFLICT (name) DO UPDATE SET token = GREATEST(mark.token, excluded.token) RETURNING token"
	case SQLite:
		s.create = "CREATE TABLE IF NOT EXISTS " + table + " (name TEXT NOT NULL PRIMARY KEY, token INTEGER NOT NULL)"
		s.raise = "INSERT INTO " + table + " AS mark (name, token) VALUES (?, ?)" +
			" ON CONFLICT (name) DO UPDATE SET token = max(mark.token, excluded.token) RETURNING token"
	case MySQL:
		// Names are compared byte by byte: text would take "a" for "A".
		s.create = "CREATE TABLE IF NOT EXISTS " + table + " (name varbinary(512) NOT NULL PRIMARY KEY, token bigint NOT NULL) ENGINE=InnoDB"
		s.raise = "INSERT INTO " + table + " (name, token) VALUES (?, ?) ON DUPLICATE KEY UPDATE token = GREATEST(token, ?)"
		// A read without a lock would answer from the transaction's snapshot, which can be older
		// than what the insert found.
		s.read = "SELECT token FROM " + table + " WHERE name = ? FOR UPDATE"
	}
	return s
}

// quote quotes a valid table name, so that it cannot be a keyword.
func (d Dialect) quote(name string) string {
	if d == MySQL {
		return "`" + name + "`"
	}
	return `"` + name + `"`
}
