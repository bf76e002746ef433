// Package access lists the rights that a Redis user needs for redlatch, and no more.
package access

import (
	"slices"
	"strings"

	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// outside is the commands that are sent outside of scripts. Clients send them to run scripts,
// listen, list names, wait for replicas, find the nodes of a cluster or the master, and begin and
// keep a connection; doctor sends some, too.
var outside = []string{
	"eval", "evalsha", "subscribe", "unsubscribe", "scan", "info", "wait", "hello", "ping", "role",
	// Not "cluster", which is also the right to take the cluster apart.
	"cluster|slots", "cluster|shards", "cluster|nodes", "cluster|info", "cluster|myid",
}

// sharded is the commands that clients of a cluster also need from Redis 7.0 on, which added them.
var sharded = []string{"spublish", "ssubscribe", "sunsubscribe"}

// Scripted returns the commands that scripts run, as ACL rules spell them. script.Commands finds
// them in the Lua files. (redlatchtest/internal/memory/commands.go has to know a new command, too.)
func Scripted(shards bool) []string {
	return slices.DeleteFunc(script.Commands(), func(name string) bool { return !shards && slices.Contains(sharded, name) })
}

// ForJournal reports whether a command is needed for the journal alone.
func ForJournal(command string) bool { return strings.HasPrefix(command, "x") }

// Commands returns the commands that a user needs; shards is for a cluster with sharded channels.
func Commands(shards bool) []string {
	all := append(slices.Clone(outside), Scripted(shards)...)
	if shards {
		all = append(all, sharded...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Patterns returns the patterns of the keys and channels under a prefix: those that begin with it,
// and those that have it in a hash tag.
func Patterns(prefix string) []string {
	if prefix == "" {
		return []string{"*"} // Redis refuses another pattern after it
	}
	prefix = keys.Escape(prefix) // or "team[ab]:" would be the right to "teama:"
	return []string{prefix + "*", "{" + prefix + "*"}
}

// Rules returns the rules of ACL SETUSER for a user of redlatch with this prefix. The user may do
// nothing else.
func Rules(prefix string, shards bool) []string {
	return append([]string{"resetkeys", "resetchannels", "-@all"}, slices.Concat(rights(prefix, shards)...)...)
}

// rights returns the rules that give rights, and take none away: for commands, keys and channels.
func rights(prefix string, shards bool) [][]string {
	var commands, keys, channels []string
	for _, command := range Commands(shards) {
		commands = append(commands, "+"+command)
	}
	for _, pattern := range Patterns(prefix) {
		keys, channels = append(keys, "~"+pattern), append(channels, "&"+pattern)
	}
	return [][]string{commands, keys, channels}
}

// Lines returns commands that give the user of that name the rights it needs, besides those it has.
// There are three, since Redis refuses the one for keys, or for channels, if the user may use all
// of them already. If name is "", there is one command that creates a user. Redis refuses it until
// the operator has filled in the password, so that none is made whose password is known.
func Lines(name, prefix string, shards bool) (lines []string) {
	if name == "" {
		return []string{"ACL SETUSER redlatch on #SHA-256-OF-THE-PASSWORD " + strings.Join(Rules(prefix, shards), " ")}
	}
	for _, rules := range rights(prefix, shards) {
		lines = append(lines, "ACL SETUSER "+name+" "+strings.Join(rules, " "))
	}
	return lines
}
