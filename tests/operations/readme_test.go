package operations

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// tested is what a reader has: the code under test, and what its test needs.
const tested = `package main

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest"
)

func report(ctx context.Context, client *redlatch.Client) error {
	return client.Mutex("report").Do(ctx, func(ctx context.Context, _ *redlatch.Lease) error {
		<-ctx.Done()
		return nil
	})
}

`

// mine has the reader's own client of go-redis.
const mine = `package main

import (
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchgoredis"
)

func share(mine *redis.Client) (*redlatch.Client, error) {
	`

// TestReadmeFromAClone does what the README says: in a module beside a clone, the lines for go.mod, the
// first program, a client over that of go-redis, and the test of a loss.
func TestReadmeFromAClone(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles for a module of its own: make test-all does")
	}
	t.Parallel()
	clone := check.Value(filepath.Abs("../..")).OK(t)
	readme := string(check.Value(os.ReadFile(filepath.Join(clone, "README.md"))).OK(t))
	block := func(begins string) string {
		t.Helper()
		_, rest, found := strings.Cut(readme, "```go\n"+begins)
		check.Must(t, found, "README.md has no Go block that begins with %q", begins)
		code, _, _ := strings.Cut(rest, "```")
		return begins + code
	}
	// The version that is downloaded already: go mod tidy would look for the newest.
	goredis := regexp.MustCompile(`github.com/redis/go-redis/v9 v\S+`).FindString(
		string(check.Value(os.ReadFile(filepath.Join(clone, "redlatchgoredis", "go.mod"))).OK(t)))
	s := redistest.Start(t)
	dir := t.TempDir()
	app := filepath.Join(dir, "app")
	check.OK(t, "Mkdir", os.Mkdir(app, 0o755))
	check.OK(t, "Symlink", os.Symlink(clone, filepath.Join(dir, "redlatch")))
	for name, code := range map[string]string{
		"go.mod":         "module example.com/app\n\ngo 1.26.0\n\nrequire " + goredis + "\n",
		"main.go":        strings.ReplaceAll(block("package main"), "redis://localhost:6379", s.URL()),
		"share.go":       mine + strings.Replace(block("client, err := redlatch.New("), "client, err :=", "return", 1) + "}\n",
		"report_test.go": tested + block("func Test"),
	} {
		check.OK(t, name, os.WriteFile(filepath.Join(app, name), []byte(code), 0o600))
	}
	run := func(line string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Dir = app
		cmd.Env = append(cmd.Environ(), "GOWORK=off", "GOFLAGS=")
		out, err := cmd.CombinedOutput()
		check.Must(t, err == nil, "%s: %v\n%s", line, err, out)
		return regexp.MustCompile(`(?m)^go: downloading .*\n`).ReplaceAllString(string(out), "") // on a new machine
	}
	lines := regexp.MustCompile(`(?s)\n    for m in .*? go mod tidy\n`).FindString(readme)
	check.Must(t, lines != "", "README.md has no lines for go.mod")
	run(lines)
	check.Equal(t, run("go run ."), "paying invoice 42\n", "the first program says")
	run("go test .")
}
