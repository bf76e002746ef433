package tests

import (
	"testing"
	"testing/synctest"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/redlatchtest"
)

// memory is a server in memory, in a bubble of testing/synctest. Minutes pass there in no time, and
// a machine that is busy or pauses changes nothing.
type memory struct {
	*redlatchtest.Memory
	t    testing.TB
	over conn.Conn // of the test itself
}

// inBubble runs a test in a bubble, with a server of its own.
func inBubble(t *testing.T, test func(t *testing.T, s *memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &memory{Memory: redlatchtest.InMemory(t), t: t}
		s.over = s.Conn()
		t.Cleanup(func() { _ = s.over.Close() })
		test(t, s)
	})
}

// anyCommand runs one command, and returns its reply as text: that of a list by lines.
var anyCommand = conn.NewScript("any command", `local function text(reply)
  if not reply then return '' end
  if type(reply) ~= 'table' then return tostring(reply) end
  if reply.ok then return reply.ok end
  local lines = {}
  for i, one in ipairs(reply) do lines[i] = text(one) end
  return table.concat(lines, '\n')
end
return text(redis.call(unpack(ARGV)))`)

// Do sends a command, and returns the reply as that of a [redistest.Server] does.
func (s *memory) Do(args ...string) string {
	s.t.Helper()
	r := s.over.Eval(s.t.Context(), conn.Call{Script: anyCommand, Args: args})[0]
	if r.Err != nil {
		s.t.Fatalf("%q: %v", args, r.Err)
	}
	return r.Reply.Text
}

// awaitFree waits until a mutex is free.
func (s *memory) awaitFree(name string) {
	s.t.Helper()
	eventually(s.t, name+" is free", func() bool { return s.Do("EXISTS", stateKey(name)) == "0" })
}

// queued waits until n are in line for a name.
func (s *memory) queued(name string, n string) {
	s.t.Helper()
	eventually(s.t, n+" in line for "+name, func() bool { return s.Do("ZCARD", queueKey(name)) == n })
}

// wantNothingLeft waits until nothing is left of a name but what outlives it on purpose.
func (s *memory) wantNothingLeft(name string) {
	s.t.Helper()
	eventually(s.t, "nothing is left of "+name, func() bool {
		return s.Do("EXISTS", stateKey(name), queueKey(name), clientsKey(name), insideKey(name), bitsKey(name)) == "0"
	})
}

// hearing has a client wait once, so that its subscription is up.
func (s *memory) hearing(c *redlatch.Client) {
	s.t.Helper()
	name := "hearing " + c.ID()
	s.Do("SET", stateKey(name), "somebody")
	result := goLock(s.t.Context(), c.Mutex(name))
	s.queued(name, "1") // which it asks for when it listens
	s.Do("DEL", stateKey(name))
	release(s.t, await(s.t, result))
}
