// Package access lists the rights that a Redis user needs for redlatch, and no more.
package access

import (
	"slices"
	"strings"

	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// outside is what clients send beside the scripts: to run them, to listen, to list names, to wait
// for replicas, to find the nodes of a cluster or the master, and to begin and keep a connection;
// and what doctor asks.
var outside = []string{
	"eval", "evalsha", "subscribe", "unsubscribe", "scan", "info", "wait", "hello", "ping", "role",
	// Not "cluster", which is also the right to take the cluster apart.
	"cluster|slots", "cluster|shards", "cluster|nodes", "cluster|info", "cluster|myid",
}

// sharded is what clients of a cluster need beside it, from Redis 7.0 on, which first knows these
// commands.
var sharded = []string{"spublish", "ssubscribe", "sunsubscribe"}

// Scripted is the commands that scripts run, in the spelling of ACL rules.
func Scripted(shards bool) []string {
	return slices.DeleteFunc(script.Commands(), func(name string) bool { return !shards && slices.Contains(sharded, name) })
}

// ForJournal reports whether a command is needed for the journal alone.
func ForJournal(command string) bool { return strings.HasPrefix(command, "x") }

// Commands is the commands that a user needs; of a cluster with sharded channels, if shards is set.
func Commands(shards bool) []string {
	all := append(slices.Clone(outside), Scripted(shards)...)
	if shards {
		all = append(all, sharded...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Patterns is the patterns of the keys and channels under a prefix. Beside what begins with it
// there is what has it in a hash tag.
func Patterns(prefix string) []string {
	if prefix == "" {
		return []string{"*"} // after which Redis refuses another
	}
	prefix = keys.Escape(prefix) // else "team[ab]:" is the right to "teama:"
	return []string{prefix + "*", "{" + prefix + "*"}
}

// Rules is the rules of ACL SETUSER for a user of redlatch with this prefix. It may do nothing
// else.
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

// Lines returns commands that give the user of that name what it needs, beside what it may do
// already. They are three, since Redis refuses the one about keys, or about channels, if the user
// may use all of them. If name is "", it is one command that makes a user, for which the operator
// puts in the password.
func Lines(name, prefix string, shards bool) (lines []string) {
	if name == "" {
		return []string{"ACL SETUSER redlatch on >PASSWORD " + strings.Join(Rules(prefix, shards), " ")}
	}
	for _, rules := range rights(prefix, shards) {
		lines = append(lines, "ACL SETUSER "+name+" "+strings.Join(rules, " "))
	}
	return lines
}
