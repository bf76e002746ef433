// Package redlatchmigrate makes golang-migrate lock with Redis instead of the database: for a
// database whose driver has no locks between processes (SQLite, ClickHouse, Cassandra). A driver
// that has them (PostgreSQL, MySQL) still takes its own lock when it is opened, whatever wraps it
// later.
//
//	driver, err := sqlite.WithInstance(db, &sqlite.Config{})
//	m, err := migrate.NewWithDatabaseInstance("file://migrations", "sqlite",
//		redlatchmigrate.Wrap(driver, client.Mutex("migrations:orders")))
//	err = m.Up()
//
// Every process that starts may call Up: one migrates, and the others wait and find nothing left to
// do.
//
// Drivers make golang-migrate's table of versions when they are opened, before a lock is asked for.
// So two processes that open a SQLite database at once may see "database is locked", with this
// package as without it: give the database a busy timeout.
//
// # When the lock is lost
//
// golang-migrate gives a migration no context, so a running migration goes on. The next step is
// refused: Run, SetVersion and Drop return the [*redlatch.LostError], and Up stops with it. A
// Migrate whose Unlock has failed believes itself locked: make a new one to go on. The version in
// the database may then be marked dirty, which golang-migrate asks a person to look at, as after a
// crash. Let a migration be one transaction where the database can do so.
package redlatchmigrate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"

	"github.com/redlatch/redlatch"
)

// driver is a driver of golang-migrate that locks on Redis.
type driver struct {
	database.Driver // migrates

	mutex *redlatch.Mutex
	open  context.Context // ends with Close
	close context.CancelFunc

	mu    sync.Mutex
	lease *redlatch.Lease // nil if it is not locked
}

// Wrap returns a driver that does what d does, under the lock of that mutex. The lock of d is not
// used any more. If the mutex has no MaxWait, a wait takes 14/15 of [migrate.DefaultLockTimeout],
// after which golang-migrate gives up: with another Migrate.LockTimeout, set a MaxWait below it. Wrap
// sends nothing.
func Wrap(d database.Driver, mutex *redlatch.Mutex) database.Driver {
	if mutex.Options().MaxWait <= 0 {
		mutex = mutex.With(redlatch.LockOptions{MaxWait: max(migrate.DefaultLockTimeout*14/15, time.Millisecond)})
	}
	open, closeIt := context.WithCancel(context.Background())
	return &driver{Driver: d, mutex: mutex, open: open, close: closeIt}
}

// Open opens a driver of the same kind, under the lock of the same mutex: golang-migrate calls it for
// a driver that is registered.
func (d *driver) Open(url string) (database.Driver, error) {
	opened, err := d.Driver.Open(url)
	if err != nil {
		return nil, err
	}
	return Wrap(opened, d.mutex), nil
}

// Lock waits in line for the mutex. If it does not get it in time, the error matches
// [database.ErrLocked] and [redlatch.ErrTaken]. If this driver is locked already, it is
// [database.ErrLocked], at once.
func (d *driver) Lock() error {
	if d.current() != nil {
		return database.ErrLocked
	}
	lease, err := d.mutex.Lock(d.open)
	if errors.Is(err, redlatch.ErrTaken) {
		return fmt.Errorf("%w: %w", database.ErrLocked, err)
	}
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.lease = lease
	d.mu.Unlock()
	if err := d.open.Err(); err != nil { // another goroutine has called Close since
		return errors.Join(err, d.Unlock())
	}
	return nil
}

// Close ends a wait for the mutex, which golang-migrate may have given up, closes the wrapped driver,
// and releases the mutex if it is held: until then, a migration may run on another goroutine.
func (d *driver) Close() error {
	d.close()
	err := d.Driver.Close()
	if d.current() != nil {
		err = errors.Join(d.Unlock(), err)
	}
	return err
}

// Unlock releases the mutex. The error matches [redlatch.ErrNotHeld] if the lock was lost before.
func (d *driver) Unlock() error {
	d.mu.Lock()
	lease := d.lease
	d.lease = nil
	d.mu.Unlock()
	if lease == nil {
		return database.ErrNotLocked
	}
	return lease.Release(context.Background())
}

// current returns the lease between Lock and Unlock, or nil.
func (d *driver) current() *redlatch.Lease {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lease
}

// lost returns an error if the lock was lost before Unlock. A driver that was not locked may write:
// golang-migrate locks where it needs to.
func (d *driver) lost() error {
	if lease := d.current(); lease != nil {
		return lease.Err()
	}
	return nil
}

// Run applies a migration, unless the lock was lost.
func (d *driver) Run(migration io.Reader) error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.Driver.Run(migration)
}

// SetVersion saves the version, unless the lock was lost.
func (d *driver) SetVersion(version int, dirty bool) error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.Driver.SetVersion(version, dirty)
}

// Drop deletes everything in the database, unless the lock was lost.
func (d *driver) Drop() error {
	if err := d.lost(); err != nil {
		return err
	}
	return d.Driver.Drop()
}
