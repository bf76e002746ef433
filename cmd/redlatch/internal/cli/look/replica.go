package look

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/conn"
)

// connect is [app.App.Connect] for a command that shows locks. It says so if they are those of a replica.
func connect(ctx context.Context, a *app.App, o redlatch.Options, use func(*redlatch.Client) error) error {
	var server conn.Conn
	o.WrapConn = func(c conn.Conn) conn.Conn {
		server = c
		return c
	}
	return a.Connect(ctx, o, func(client *redlatch.Client) error {
		if len(a.URLs()) == 1 && !server.Target().Cluster {
			warnOfReplica(ctx, a, server)
		}
		return use(client)
	})
}

var replication = conn.NewScript("replication", "return redis.call('INFO', 'replication')")

// warnOfReplica says so if a server is a replica. One that does not tell is taken for none.
func warnOfReplica(ctx context.Context, a *app.App, server conn.Conn) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	told := server.Eval(ctx, conn.Call{Script: replication, Keys: []string{a.Prefix}})[0].Reply.Text
	info := make(map[string]string)
	for line := range strings.Lines(told) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[key] = value
	}
	if info["role"] != "slave" {
		return
	}
	link := ""
	if info["master_link_status"] == "down" {
		link = ", whose master it does not hear now"
	}
	a.Say("%s is a replica of %s%s: it shows what it has heard of, and a lock may be held by another process, or by none", server.Target().Addr,
		net.JoinHostPort(info["master_host"], info["master_port"]), link)
}
