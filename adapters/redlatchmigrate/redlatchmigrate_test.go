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
	"github.com/redlatch/redlatch/internal/testkit/proctest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// url names the Redis server of the examples, as redis://localhost:6379 would.
var url string

func TestMain(m *testing.M) {
	proctest.Main(map[string]proctest.Role{"migrate": migrateUp})
	os.Exit(redistest.Main(m, func(s *redistest.Server) { url = s.URL() }))
}

// migrations are those of an application.
var migrations = fstest.MapFS{
	"1_account.up.sql": {Data: []byte("CREATE TABLE account (id INTEGER PRIMARY KEY)")},
	"2_balance.up.sql": {Data: []byte("ALTER TABLE account ADD COLUMN balance INTEGER")},
}

// slow is a driver whose migrations take their time, and are told.
type slow struct {
	database.Driver
	takes time.Duration
}

func (s slow) Run(migration io.Reader) error {
	text, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	fmt.Println("run", strings.Fields(string(text))[0])
	time.Sleep(s.takes)
	return s.Driver.Run(strings.NewReader(string(text)))
}

// migrator returns the migrations of a database in a file, under a lock. golang-migrate writes to
// the database when it opens it, before it asks for the lock. A process then waits for the write of
// another process; by default SQLite would have it fail at once.
func migrator(file string, takes time.Duration, mutex *redlatch.Mutex) (*migrate.Migrate, error) {
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(30000)")
	if err != nil {
		return nil, err
	}
	driver, err := sqlite.WithInstance(db, &sqlite.Config{})
	if err != nil {
		return nil, err
	}
	source, err := iofs.New(migrations, ".")
	if err != nil {
		return nil, err
	}
	return migrate.NewWithInstance("iofs", source, "sqlite", redlatchmigrate.Wrap(slow{driver, takes}, mutex))
}

// migrateUp is a process that migrates when it starts: url, file, how long a migration takes.
func migrateUp(arguments []string) error {
	takes, err := time.ParseDuration(arguments[2])
	if err != nil {
		return err
	}
	client, err := redlatch.Open(context.Background(), arguments[0], redlatch.Options{Lock: redlatch.LockOptions{TTL: 3 * time.Second}})
	if err != nil {
		return err
	}
	m, err := migrator(arguments[1], takes, client.Mutex("migrations"))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	switch err := m.Up(); {
	case errors.Is(err, migrate.ErrNoChange):
		fmt.Println("nothing to do")
	case err != nil:
		fmt.Println("failed:", err)
	default:
		fmt.Println("migrated")
	}
	return client.Close()
}

// TestOneMigrates: of two processes that start together, one migrates, and the other waits and finds
// nothing to do.
func TestOneMigrates(t *testing.T) {
	t.Parallel()
	s, file := redistest.Start(t), filepath.Join(t.TempDir(), "db")
	one := proctest.Start(t, "migrate", s.URL(), file, "300ms")
	one.Expect("run CREATE")
	two := proctest.Start(t, "migrate", s.URL(), file, "0s")
	two.Expect("ready")
	one.Expect("run ALTER")
	one.Expect("migrated")
	check.Equal(t, two.Next(), "nothing to do", "the second process says")
}

// TestKilled: a process that is killed in a migration costs the others its lease. What it has left is
// for golang-migrate to judge, which calls it dirty.
func TestKilled(t *testing.T) {
	t.Parallel()
	s, file := redistest.Start(t), filepath.Join(t.TempDir(), "db")
	one := proctest.Start(t, "migrate", s.URL(), file, "1h")
	one.Expect("run CREATE")
	two := proctest.Start(t, "migrate", s.URL(), file, "0s")
	two.Expect("ready")
	locktest.InLine(t, s, "migrations", 1)
	if said := two.Said(); len(said) > 0 {
		t.Errorf("the second process says %q beside the first", said)
	}
	one.Kill()
	if line := two.Next(); !strings.HasPrefix(line, "failed: Dirty database version 1") {
		t.Errorf("the second process says %q, want that version 1 is dirty", line)
	}
}

// TestLost: a process whose lock is taken by force begins no further migration.
func TestLost(t *testing.T) {
	t.Parallel()
	s, file := redistest.Start(t), filepath.Join(t.TempDir(), "db")
	client := locktest.Open(t, s.URL(), redlatch.Options{})
	one := proctest.Start(t, "migrate", s.URL(), file, "3s")
	one.Expect("run CREATE")
	check.OK(t, "ForceRelease", check.ErrorOf(client.ForceRelease(t.Context(), "migrations", redlatch.ForceOptions{})))
	if line := one.Next(); !strings.HasPrefix(line, "failed: redlatch: the lease on \"migrations\"") {
		t.Errorf("the process says %q, want that its lease was lost", line)
	}
}

// TestHostSuite: the driver passes what golang-migrate asks of all drivers.
func TestHostSuite(t *testing.T) {
	t.Parallel()
	client := locktest.Open(t, redistest.Start(t).URL(), redlatch.Options{})
	driver := check.Value(new(sqlite.Sqlite).Open("sqlite://" + filepath.Join(t.TempDir(), "db"))).OK(t)
	dt.Test(t, redlatchmigrate.Wrap(driver, client.Mutex("driver")), []byte("CREATE TABLE account (id INTEGER)"))
	dt.TestMigrate(t, check.Value(migrator(filepath.Join(t.TempDir(), "db"), 0, client.Mutex("migrate"))).OK(t))
}

// TestOutage: without Redis, golang-migrate begins nothing and is told why. A process that has lost
// its lock writes nothing more, and after the outage another process migrates.
func TestOutage(t *testing.T) {
	locktest.Outages(t, func(t *testing.T, s *redistest.Server, goes, comes func()) {
		o := redlatch.Options{RequestTimeout: 300 * time.Millisecond, Lock: redlatch.LockOptions{TTL: time.Second}}
		mutex := locktest.Open(t, s.URL(), o).Mutex("migrations")
		file := filepath.Join(t.TempDir(), "db")
		m := check.Value(migrator(file, 0, mutex)).OK(t)
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
			err := check.Value(migrator(file, 0, mutex)).OK(t).Up()
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
		m := check.Value(migrator(filepath.Join(t.TempDir(), "db"), 0, mutex)).OK(t)
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

// TestTaken: golang-migrate is told that the database is locked.
func TestTaken(t *testing.T) {
	t.Parallel()
	s, file := redistest.Start(t), filepath.Join(t.TempDir(), "db")
	client := locktest.Open(t, s.URL(), redlatch.Options{})
	lease := locktest.Lock(t, client.Mutex("migrations"))
	defer locktest.Release(t, lease)
	other := locktest.Open(t, s.URL(), redlatch.Options{Lock: redlatch.LockOptions{MaxWait: 3 * time.Second}})
	m := check.Value(migrator(file, 0, other.Mutex("migrations"))).OK(t)
	check.Error(t, "Up", m.Up(), database.ErrLocked, redlatch.ErrTaken)
}
