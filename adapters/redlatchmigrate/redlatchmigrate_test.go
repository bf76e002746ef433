package redlatchmigrate_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/sqlite"
	dt "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/adapters/redlatchmigrate"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// url names the Redis server of the examples, as redis://localhost:6379 would.
var url string

func TestMain(m *testing.M) {
	os.Exit(redistest.Main(m, func(s *redistest.Server) { url = s.URL() }))
}

// migrations are those of an application.
var migrations = fstest.MapFS{
	"1_account.up.sql": {Data: []byte("CREATE TABLE account (id INTEGER PRIMARY KEY)")},
	"2_balance.up.sql": {Data: []byte("ALTER TABLE account ADD COLUMN balance INTEGER")},
}

// steps are told of each migration by a driver, which runs it when it may.
type steps struct {
	database.Driver
	run chan string
	may chan struct{}
}

func (s steps) Run(migration io.Reader) error {
	text, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	s.run <- strings.Fields(string(text))[0]
	<-s.may
	return s.Driver.Run(strings.NewReader(string(text)))
}

// migrator returns the migrations of a database in a file, under a lock. golang-migrate writes to
// the database when it opens it, before it asks for the lock. A process then waits for the write of
// another process; by default SQLite would have it fail at once.
func migrator(t *testing.T, file string, mutex *redlatch.Mutex) (*migrate.Migrate, steps) {
	t.Helper()
	db := check.Value(sql.Open("sqlite", file+"?_pragma=busy_timeout(30000)")).OK(t)
	driver := check.Value(sqlite.WithInstance(db, &sqlite.Config{})).OK(t)
	told := steps{driver, make(chan string, len(migrations)), make(chan struct{})}
	source := check.Value(iofs.New(migrations, ".")).OK(t)
	m, err := migrate.NewWithInstance("iofs", source, "sqlite", redlatchmigrate.Wrap(told, mutex))
	check.OK(t, "NewWithInstance", err)
	return m, told
}

// quick returns a migrator whose migrations do not wait.
func quick(t *testing.T, file string, mutex *redlatch.Mutex) *migrate.Migrate {
	t.Helper()
	m, told := migrator(t, file, mutex)
	close(told.may)
	return m
}

// up has a process migrate when it starts.
func up(m *migrate.Migrate) (ended chan error) {
	ended = make(chan error, 1)
	go func() { ended <- m.Up() }()
	return ended
}

// TestOneMigrates: of two processes that start together, one migrates, and the other waits and finds
// nothing to do. If the first ends without a word, it costs the other its lease. What the first has left is
// for golang-migrate to judge, which calls it dirty.
func TestOneMigrates(t *testing.T) {
	t.Parallel()
	for _, crashes := range []bool{false, true} {
		t.Run(fmt.Sprintf("crashes=%t", crashes), func(t *testing.T) {
			t.Parallel()
			s, client, other := locktest.StartTwo(t, redlatch.Options{Lock: redlatch.LockOptions{TTL: 3 * time.Second}})
			file := filepath.Join(t.TempDir(), "db")
			m, told := migrator(t, file, client.Mutex("migrations"))
			one := up(m)
			check.Equal(t, <-told.run, "CREATE", "the first runs")
			two := up(quick(t, file, other.Mutex("migrations")))
			locktest.InLine(t, s, "migrations", 1)
			if crashes {
				check.OK(t, "Close", locktest.CloseLeaving(client))
				check.Equal(t, <-two, error(migrate.ErrDirty{Version: 1}), "the second migrates")
				close(told.may)
				check.Error(t, "the first migrates", <-one, redlatch.ErrNotHeld)
				return
			}
			close(told.may)
			check.OK(t, "the first migrates", <-one)
			check.Error(t, "the second migrates", <-two, migrate.ErrNoChange)
		})
	}
}

// TestLost: a process whose lock is taken by force begins no further migration.
func TestLost(t *testing.T) {
	t.Parallel()
	lost := make(chan struct{})
	_, client := locktest.Start(t, redlatch.Options{Hook: func(_ context.Context, e redlatch.Event) {
		if e.Type == redlatch.EventLost {
			close(lost)
		}
	}})
	m, told := migrator(t, filepath.Join(t.TempDir(), "db"), client.Mutex("migrations"))
	ended := up(m)
	<-told.run
	check.OK(t, "ForceRelease", check.ErrorOf(client.ForceRelease(t.Context(), "migrations", redlatch.ForceOptions{})))
	<-lost
	close(told.may)
	check.Error(t, "Up", <-ended, redlatch.ErrNotHeld)
	check.Equal(t, len(told.run), 0, "migrations that begin after the loss")
}

// TestHostSuite: the driver passes what golang-migrate asks of all drivers.
func TestHostSuite(t *testing.T) {
	t.Parallel()
	client := locktest.Open(t, redistest.Start(t).URL(), redlatch.Options{})
	driver := check.Value(new(sqlite.Sqlite).Open("sqlite://" + filepath.Join(t.TempDir(), "db"))).OK(t)
	dt.Test(t, redlatchmigrate.Wrap(driver, client.Mutex("driver")), []byte("CREATE TABLE account (id INTEGER)"))
	dt.TestMigrate(t, quick(t, filepath.Join(t.TempDir(), "db"), client.Mutex("migrate")))
}

// TestOutage: without Redis, golang-migrate begins nothing and is told why. A process that has lost
// its lock writes nothing more, and after the outage another process migrates.
func TestOutage(t *testing.T) {
	locktest.Outages(t, func(t *testing.T, s *redistest.Server, goes, comes func()) {
		o := redlatch.Options{RequestTimeout: 300 * time.Millisecond, Lock: redlatch.LockOptions{TTL: time.Second}}
		mutex := locktest.Open(t, s.URL(), o).Mutex("migrations")
		file := filepath.Join(t.TempDir(), "db")
		m := quick(t, file, mutex)
		db := check.Value(new(sqlite.Sqlite).Open("sqlite://" + file)).OK(t)
		holder := redlatchmigrate.Wrap(db, mutex)
		check.OK(t, "Lock", holder.Lock())
		goes()
		check.Error(t, "Up", m.Up(), redlatch.ErrUnreachable)
		locktest.Eventually(t, "the holder may not write", func() bool {
			return errors.Is(holder.SetVersion(database.NilVersion, false), redlatch.ErrNotHeld)
		})
		check.Error(t, "Run", holder.Run(strings.NewReader("CREATE TABLE lost (id INTEGER)")), redlatch.ErrNotHeld)
		check.Error(t, "Drop", holder.Drop(), redlatch.ErrNotHeld)
		comes()
		check.Error(t, "Unlock", holder.Unlock(), redlatch.ErrNotHeld)
		locktest.Eventually(t, "another migrates", func() bool {
			err := quick(t, file, mutex).Up()
			return err == nil || errors.Is(err, migrate.ErrNoChange)
		})
	})
}

// TestClosed: a wait that golang-migrate gave up does not take the lock after Close, and Close
// releases what such a wait took before.
func TestClosed(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, redlatch.Options{})
	mutex := c.Mutex("migrations")
	other := locktest.Open(t, s.URL(), redlatch.Options{}).Mutex("migrations")
	for _, early := range []bool{false, true} {
		lease := locktest.Lock(t, other)
		m := quick(t, filepath.Join(t.TempDir(), "db"), mutex)
		m.LockTimeout = time.Millisecond
		check.Error(t, "Up", m.Up(), migrate.ErrLockTimeout)
		locktest.InLine(t, s, "migrations", 1)
		if early {
			locktest.Release(t, lease)
			locktest.InLine(t, s, "migrations", 0)
		}
		_, err := m.Close()
		check.Nil(t, "Close", err)
		if !early {
			locktest.InLine(t, s, "migrations", 0)
			locktest.Release(t, lease)
		}
		locktest.Release(t, locktest.Lock(t, other))
	}
}

// closing is a driver that tells when it is closed.
type closing struct {
	database.Driver
	told func()
}

func (c closing) Close() error {
	c.told()
	return nil
}

// TestClosedDuringAMigration: a program that is told to end closes the driver while a migration runs.
// Another may begin when the database is closed, and not before.
func TestClosedDuringAMigration(t *testing.T) {
	t.Parallel()
	_, c, other := locktest.StartTwo(t, redlatch.Options{})
	try := func() error { return check.ErrorOf(other.Mutex("migrations").TryLock(t.Context())) }
	d := redlatchmigrate.Wrap(closing{told: func() { check.Error(t, "TryLock", try(), redlatch.ErrTaken) }}, c.Mutex("migrations"))
	check.OK(t, "Lock", d.Lock())
	check.Nil(t, "Close", d.Close())
	check.Nil(t, "TryLock after Close", try())
}

// TestOpen: golang-migrate opens a driver that is registered by a URL. What it opens locks, too.
func TestOpen(t *testing.T) {
	t.Parallel()
	_, c, other := locktest.StartTwo(t, redlatch.Options{})
	wrapped := redlatchmigrate.Wrap(new(sqlite.Sqlite), c.Mutex("migrations"))
	d := check.Value(wrapped.Open("sqlite://" + filepath.Join(t.TempDir(), "db"))).OK(t)
	check.OK(t, "Lock", d.Lock())
	check.Error(t, "TryLock", check.ErrorOf(other.Mutex("migrations").TryLock(t.Context())), redlatch.ErrTaken)
	check.Nil(t, "Close", d.Close())
}

// TestTaken: golang-migrate is told that the database is locked.
func TestTaken(t *testing.T) {
	t.Parallel()
	s, file := redistest.Start(t), filepath.Join(t.TempDir(), "db")
	client := locktest.Open(t, s.URL(), redlatch.Options{})
	lease := locktest.Lock(t, client.Mutex("migrations"))
	defer locktest.Release(t, lease)
	other := locktest.Open(t, s.URL(), redlatch.Options{Lock: redlatch.LockOptions{MaxWait: 3 * time.Second}})
	m := quick(t, file, other.Mutex("migrations"))
	check.Error(t, "Up", m.Up(), database.ErrLocked, redlatch.ErrTaken)
}
