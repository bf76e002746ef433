package memory

import (
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/conn"
)

// status is a reply such as OK.
type status string

const ok status = "OK"

var (
	errWrongType = errors.New("WRONGTYPE Operation against a key holding the wrong kind of value")
	errInteger   = errors.New("ERR value is not an integer or out of range")
	errFloat     = errors.New("ERR value is not a valid float")
	errSyntax    = errors.New("ERR syntax error")
	errArguments = errors.New("ERR wrong number of arguments")
)

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// replyOf returns a command's result in the form of package conn.
func replyOf(v any) conn.Reply {
	switch v := v.(type) {
	case nil:
		return conn.Reply{Nil: true}
	case int64:
		return conn.Reply{Int: v}
	case string:
		return conn.Reply{Text: v}
	case status:
		return conn.Reply{Text: string(v)}
	case []any:
		list := make([]conn.Reply, len(v))
		for i := range v {
			list[i] = replyOf(v[i])
		}
		return conn.Reply{List: list}
	}
	panic(fmt.Sprintf("memory: a command returned a %T", v))
}

// Refusal is why a server refuses commands.
type Refusal string

// The refusals, each by the first word of its error.
const (
	Serves   Refusal = ""         // it refuses nothing
	Full     Refusal = "OOM"      // commands that could need memory, unless the script wrote before
	DiskFull Refusal = "MISCONF"  // commands that write, unless the script wrote before
	ReadOnly Refusal = "READONLY" // the same: it is a replica
	Loading  Refusal = "LOADING"  // everything: it reads its data
)

// refusals are the errors of a server that refuses.
var refusals = map[Refusal]string{
	Full:     "OOM command not allowed when used memory > 'maxmemory'.",
	DiskFull: "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
	ReadOnly: "READONLY You can't write against a read only replica.",
	Loading:  "LOADING Redis is loading the dataset in memory",
}
