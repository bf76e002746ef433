// Package fencesql refuses the writes of late lock holders in the transaction that would make them.
//
// A guard table has one row for each name, with the newest token seen. The check locks the row and
// raises the token, so everything that the same transaction writes is one step with it:
//
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	defer tx.Rollback()
//	if err := table.Check(ctx, tx, lease.Name(), lease.Token()); err != nil {
//		return err
//	}
//	... // read and write
//	return tx.Commit()
//
// # Only inside the transaction
//
// A check in a transaction of its own protects nothing: between its commit and the write, the
// process can be suspended, the next holder checks and writes, and then the old write comes.
// Inside, the row lock makes one of the two checks wait. Either the next holder's check waits until
// this transaction has ended. Or this check waits until the next holder's transaction has ended,
// and is then refused. This is why [Table.Check] takes a *sql.Tx and nothing else. What the
// transaction does elsewhere, a mail or a request to a service, is not protected.
//
// # Isolation levels
//
// Let Check be the first statement of the transaction. What was read before it, in this transaction
// or another, may be old: a late holder can have written in between.
//
//   - PostgreSQL, READ COMMITTED (its default): Check waits for the row and sees the newest token.
//   - PostgreSQL, REPEATABLE READ and SERIALIZABLE: Check waits, and if the other transaction
//     committed, Check fails with a serialization failure (SQLSTATE 40001). Roll back and run the
//     transaction again, as always at these levels.
//   - MySQL and MariaDB, all levels: Check waits for the row and sees the newest token, also if the
//     transaction's snapshot is older; MariaDB with innodb_snapshot_isolation may fail with error
//     1020 instead. Roll back and run the transaction again, and likewise after a deadlock (error
//     1213). If the transaction read before Check, what it reads after Check is as old: at
//     REPEATABLE READ, their default, all plain reads are from one snapshot. With several primaries
//     (Galera, Group Replication), send all checks to one of them.
//   - SQLite: Check takes the write lock of the whole database. Set a busy_timeout. If the
//     transaction read before, SQLite may refuse to go on with SQLITE_BUSY; begin it with BEGIN
//     IMMEDIATE, for which drivers have an option.
//
// The error that Check returns wraps the driver's error, for errors.As. Only a [*fence.StaleError]
// is a verdict on the token.
//
// # Without a table
//
// If what the lock protects is one row, a column in that row is enough, and needs nothing of this
// package:
//
//	ALTER TABLE account ADD COLUMN fence bigint NOT NULL DEFAULT 1
//
//	UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2
//
// If no row was changed, the token is stale, or there is no such row. If the new balance depends on
// the old one, begin with an UPDATE of the token alone and read after it, so that no late write can
// come between the read and the write.
//
// The column begins with 1, which is smaller than every token, and larger than 0, the token of a
// lease that is no longer held. MySQL counts changed rows unless told to count those that match
// (clientFoundRows in its Go driver), so there a write that is repeated looks like one that was
// refused.
//
// # The size of the table
//
// Rows are never removed. The token of a lock on one server or cluster is about the time of the
// acquisition in microseconds since 1970, so old rows can be deleted by their token, once no
// process can still hold such an old one. Over a quorum, and where Redisson counts tokens as well,
// the newest token of a name in daily use can be as old as the name: delete none of those.
package fencesql
