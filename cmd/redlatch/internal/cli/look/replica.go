package look

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/fleet"
)

// server is what one server says about itself. It is empty for a quorum, a cluster, or a server
// that Sentinel names, which is a master.
type server struct {
	replica bool
	now     time.Time // by its clock; zero if it does not say
}

// connect is [app.App.Connect] for a command that shows locks. It warns if the server is a replica.
func connect(ctx context.Context, a *app.App, o redlatch.Options, use func(*redlatch.Client, server) error) error {
	var to conn.Conn
	o.WrapConn = func(c conn.Conn) conn.Conn {
		to = c
		return c
	}
	return a.Connect(ctx, o, func(client *redlatch.Client) error {
		if urls := a.URLs(); len(urls) > 1 || to.Target().Cluster || strings.Contains(urls[0], "+sentinel://") {
			return use(client, server{})
		}
		return use(client, meet(ctx, a, to))
	})
}

// roleAndTime is a script that returns a server's INFO of its replication, and its time in seconds.
var roleAndTime = conn.NewScript("role and time", "return {redis.call('INFO', 'replication'), redis.call('TIME')[1]}")

// patience bounds the wait for a server's answer about itself. Without one, it counts as a master.
const patience = 3 * time.Second

// meet asks a server about itself, and warns if it is a replica.
func meet(ctx context.Context, a *app.App, c conn.Conn) server {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	told := c.Eval(ctx, conn.Call{Script: roleAndTime, Keys: []string{a.Prefix}})[0].Reply.List
	if len(told) != 2 {
		return server{}
	}
	var s server
	if seconds, err := strconv.ParseInt(told[1].Text, 10, 64); err == nil {
		s.now = time.Unix(seconds, 0)
	}
	info := doctor.Pairs(told[0].Text, "\n", ":")
	if s.replica = info["role"] == "slave"; !s.replica {
		return s
	}
	link := ""
	if info["master_link_status"] == "down" {
		link = ", cut off from its master"
	}
	a.Say("%s is a replica of %s%s: its data may be stale: a lock may be held by another process, or be free", c.Target().Addr,
		net.JoinHostPort(info["master_host"], info["master_port"]), link)
	return s
}

// warnOfVotes warns if too few nodes of a quorum vote for locks of this kind, or of any kind if it
// is "". It returns the kinds.
func warnOfVotes(ctx context.Context, a *app.App, client *redlatch.Client, kind string) (mute []string) {
	mute = slices.DeleteFunc(fleet.Mute(client.Nodes(ctx)), func(k string) bool { return kind != "" && k != kind })
	if len(mute) > 0 {
		a.Say("%s", fleet.MuteText(mute))
	}
	return mute
}
