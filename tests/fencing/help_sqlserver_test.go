package fencing

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/redlatch/redlatch/fence/fencesql"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/servers"
)

// spell writes a statement with the placeholders of the dialect.
func (d database) spell(statement string) string {
	if d.Dialect != fencesql.PostgreSQL {
		return statement
	}
	parts := strings.Split(statement, "?")
	for i := range parts[1:] {
		parts[i] += fmt.Sprintf("$%d", i+1)
	}
	return strings.Join(parts, "")
}

// database is a database of a test, empty at first.
type database struct {
	Dialect     fencesql.Dialect
	Driver, DSN string
}

// databases are the servers, by what a test calls them. Each skips the test if it is not installed.
var databases = map[string]func(testing.TB) database{"SQLite": startSQLite, "PostgreSQL": startPostgres, "MariaDB": startMariaDB}

// connect returns a pool that is closed with the test.
func (d database) connect(t testing.TB) *sql.DB {
	t.Helper()
	db := check.Value(sql.Open(d.Driver, d.DSN)).OK(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func startSQLite(t testing.TB) database {
	path := filepath.Join(t.TempDir(), "db")
	return database{fencesql.SQLite, "sqlite", "file:" + path + "?_pragma=busy_timeout(30000)&_pragma=journal_mode(wal)&_pragma=synchronous(off)"}
}

func startPostgres(t testing.TB) database {
	initdb := find("initdb", "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
	if initdb == "" {
		t.Skip("no PostgreSQL server: install the package postgresql")
	}
	s := newSQLServer(t)
	data := filepath.Join(s.dir, "data")
	s.run(initdb, "-D", data, "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
	s.start(syscall.SIGQUIT, filepath.Join(filepath.Dir(initdb), "postgres"), "-D", data, "-c", "listen_addresses=",
		"-c", "unix_socket_directories="+s.dir, "-c", "fsync=off", "-c", "max_connections=50")
	d := database{fencesql.PostgreSQL, "pgx", "host=" + s.dir + " user=postgres dbname=postgres"}
	s.await(d)
	return d
}

func startMariaDB(t testing.TB) database {
	server, install := find("mariadbd", "/usr/sbin", "/usr/libexec"), find("mariadb-install-db", "/usr/bin")
	if server == "" || install == "" {
		t.Skip("no MariaDB server: install the package mariadb-server")
	}
	s := newSQLServer(t)
	data, socket := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "socket")
	s.run(install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--skip-test-db")
	s.start(syscall.SIGKILL, server, "--no-defaults", "--datadir="+data, "--socket="+socket, "--pid-file="+filepath.Join(s.dir, "pid"),
		"--skip-networking", "--innodb-flush-log-at-trx-commit=0")
	// clientFoundRows: by column, a write that is repeated would otherwise look refused.
	d := database{fencesql.MySQL, "mysql", "root@unix(" + socket + ")/mysql?clientFoundRows=true"}
	s.await(d)
	return d
}

// find is the path of a program, "" if there is none.
func find(program string, dirs ...string) string {
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	for _, dir := range dirs {
		if paths, _ := filepath.Glob(filepath.Join(dir, program)); len(paths) > 0 {
			return paths[len(paths)-1]
		}
	}
	return ""
}

// sqlServer is a database server in a directory of its own, where its socket is as well, so that it
// needs no port.
type sqlServer struct {
	t   testing.TB
	dir string
	as  *syscall.Credential // such servers do not run as root
}

func newSQLServer(t testing.TB) *sqlServer {
	t.Helper()
	dir, err := os.MkdirTemp("", "redlatch") // not t.TempDir: the path of a socket is short, and others cannot enter there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &sqlServer{t: t, dir: dir}
	if os.Getuid() != 0 {
		return s
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skipf("database servers do not run as root, and there is no user nobody: %v", err)
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	check.OK(t, "Chown", os.Chown(dir, uid, gid))
	s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return s
}

func (s *sqlServer) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, servers.DieWithParent(false)
	cmd.SysProcAttr.Credential = s.as
	cmd.Env = append(os.Environ(), "HOME="+s.dir)
	return cmd
}

// run runs a program to its end.
func (s *sqlServer) run(program string, args ...string) {
	s.t.Helper()
	if out, err := s.command(program, args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// start starts the server. It is stopped with the test, by this signal.
func (s *sqlServer) start(stop syscall.Signal, program string, args ...string) {
	s.t.Helper()
	log := check.Value(os.Create(filepath.Join(s.dir, "log"))).OK(s.t)
	defer log.Close()
	cmd := s.command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	check.OK(s.t, "Start", cmd.Start())
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(stop)
		_ = cmd.Wait()
	})
}

// await returns when the server answers.
func (s *sqlServer) await(d database) {
	s.t.Helper()
	db := d.connect(s.t)
	var err error
	locktest.EventuallyOr(s.t, func() bool {
		ctx, cancel := context.WithTimeout(s.t.Context(), locktest.Patience)
		defer cancel()
		err = db.PingContext(ctx)
		return err == nil
	}, func() string {
		log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
		return fmt.Sprintf("the database answers: %v; its log:\n%s", err, log)
	})
}
