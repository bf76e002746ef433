package faults

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// ailing is a server that can be made to refuse what it is asked, or to be slow, for a while.
type ailing struct {
	*redistest.Server
	console net.Conn // also when it takes no new connections
	said    *bufio.Reader
}

// startAiling starts one that is well. It cannot save its data: a directory is where the file
// should be.
func startAiling(t *testing.T) *ailing {
	t.Helper()
	dir := t.TempDir()
	s := &ailing{Server: redistest.Start(t, "--dir", dir)}
	check.OK(t, "Mkdir", os.Mkdir(filepath.Join(dir, "dump.rdb"), 0o700))
	s.console = check.Value(net.Dial("tcp", s.Addr())).OK(t)
	t.Cleanup(func() { _ = s.console.Close() })
	s.said = bufio.NewReader(s.console)
	return s
}

// tell sends a command whose answer is one line. It returns the answer.
func (s *ailing) tell(command string) string {
	_, err := fmt.Fprintf(s.console, "%s\r\n", command)
	line := ""
	if err == nil {
		line, err = s.said.ReadString('\n')
	}
	if err != nil {
		panic(fmt.Sprintf("the console of the server: %v", err)) // nothing is done to it
	}
	return line
}

// ailment is what a server can have, and how it gets well.
type ailment struct {
	name      string
	fall, get func(s *ailing, ctx context.Context)
}

var ailments = []ailment{
	{"out of memory", telling("CONFIG SET maxmemory 1"), telling("CONFIG SET maxmemory 0")},
	{"cannot save", (*ailing).spoilSave, telling(`CONFIG SET save ""`)},
	{"replica of nobody", telling("REPLICAOF 127.0.0.1 1"), telling("REPLICAOF NO ONE")},
	{"too many clients", telling("CONFIG SET maxclients 1"), telling("CONFIG SET maxclients 10000")},
	{"writes wait", telling("CLIENT PAUSE 10000 WRITE"), telling("CLIENT UNPAUSE")},
	{"busy", (*ailing).compute, func(*ailing, context.Context) {}},
}

// telling sends one command.
func telling(command string) func(*ailing, context.Context) {
	return func(s *ailing, _ context.Context) { s.tell(command) }
}

// spoilSave has the server find out that it cannot save.
func (s *ailing) spoilSave(ctx context.Context) {
	s.tell(`CONFIG SET save "3600 1000000"`)
	s.tell("BGSAVE")
	for ctx.Err() == nil && !strings.Contains(s.Do("INFO", "persistence"), "rdb_last_bgsave_status:err") {
		help.Rest(ctx, 5*time.Millisecond)
	}
}

// compute keeps the server from everything else for a while.
func (s *ailing) compute(context.Context) {
	s.Do("EVAL", `local began = redis.call('TIME')
repeat
  local now = redis.call('TIME')
until (now[1] - began[1]) * 1000000 + now[2] - began[2] > tonumber(ARGV[1])`, "0", "300000")
}

// ail has the server fall ill and get well again. Connections that are cut meanwhile meet that,
// too.
func (s *ailing) ail(ctx context.Context, random *rand.Rand, proxies []*wire.Proxy) {
	a := ailments[random.IntN(len(ailments))]
	cut := slices.Clone(proxies)[:random.IntN(len(proxies)+1)]
	if a.name == "too many clients" {
		cut = proxies
	}
	span := time.Duration(random.Int64N(int64(800 * time.Millisecond)))
	a.fall(s, ctx)
	for _, p := range cut {
		p.Cut()
	}
	help.Rest(ctx, span)
	a.get(s, ctx)
}

// TestAilments: each of them keeps a write from the server, and no longer than it lasts.
func TestAilments(t *testing.T) {
	t.Parallel()
	s := startAiling(t)
	for _, a := range ailments {
		if a.name == "busy" || a.name == "writes wait" || a.name == "too many clients" {
			continue // nothing is refused to those who are there
		}
		a.fall(s, t.Context())
		if text, err := s.DoErr("SET", "a", "b"); err == nil {
			t.Errorf("%s: SET = %s, want an error", a.name, text)
		}
		a.get(s, t.Context())
		s.Do("SET", "a", "b")
	}
}
