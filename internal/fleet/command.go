package fleet

import (
	"fmt"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
)

// defaultPrefix is that of clients and commands that are given no other.
const defaultPrefix = "redlatch:"

// ReleaseCommand returns the shell command that takes a lock from this holder by force. It names
// the owner, so that it takes the lock from no later holder, no matter how often it is typed. It is
// "" if there is no owner, or a name cannot be typed.
func ReleaseCommand(l *Lock, h redlatch.Holder) string {
	args := append([]string{"redlatch", "release", "--force"}, Only(h)...)
	if prefix := strings.TrimSuffix(l.Key, l.Name); prefix != defaultPrefix {
		args = append(args, "--prefix", prefix)
	}
	args = append(args, "--reason", "by hand", "--", l.Name)
	if h.Owner == "" || hides(strings.Join(args, "")) {
		return ""
	}
	for i, arg := range args {
		args[i] = ShellWord(arg)
	}
	return strings.Join(args, " ")
}

// Only returns the flags of release that mean this holder and no later one. The owner of a job's
// window is always the same, so its time is given, too.
func Only(h redlatch.Holder) []string {
	flags := []string{"--owner", h.Owner}
	if BetweenRuns(h) && !h.Since.IsZero() {
		flags = append(flags, "--before", h.Since.Add(time.Microsecond).UTC().Format(time.RFC3339Nano))
	}
	return flags
}

// plain is what a shell reads as it is, except for a leading =, with which zsh looks up a program.
const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-"

// ShellWord returns an argument, quoted so that a shell reads it unchanged.
func ShellWord(arg string) string {
	if arg != "" && arg[0] != '=' && strings.Trim(arg, plain) == "" {
		return arg
	}
	if hides(arg) {
		return spelled(arg)
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// spelled returns an argument in the form $'...' of bash and zsh, in visible characters. A screen
// may replace others, and the line would name another lock, or be a pattern for several.
func spelled(arg string) string {
	var b strings.Builder
	for _, c := range []byte(arg) {
		if c >= ' ' && c <= '~' && c != '\\' && c != '\'' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	return "$'" + b.String() + "'"
}
