package fleet

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// FuzzText shows texts of others: all that is printed is one line of characters that can be seen, and a
// shell reads back what is meant for one.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "a", "it's", "-x", "=ls", "~", "a b\n", "\x1b[2J", "\xff'\\", "\u202e<b>", "$(x)`y`!1", `$'\n'`, "\u00a0"} {
		f.Add(s, "redlatch:")
		f.Add("nightly", s)
	}
	bash, _ := exec.LookPath("bash")
	f.Fuzz(func(t *testing.T, name, other string) {
		seen := func(what, text string, most int) {
			t.Helper()
			hidden := !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
			check.That(t, !hidden && len(text) <= most, "%s of %q: %q, of %d bytes", what, name, text, len(text))
		}
		read := func(line string, want ...string) {
			t.Helper()
			if bash == "" || strings.Contains(name+other, "\x00") { // which no argument can have
				return
			}
			out := check.Value(exec.Command(bash, "-c", `printf '%s\0' `+line).Output()).OK(t)
			check.Equal(t, string(out), strings.Join(want, "\x00")+"\x00", "bash reads %s", line)
		}
		seen("Visible", Visible(name), 4*len(name)+2)
		seen("OneLine", OneLine(name), 3*len(name))
		seen("LabelText", LabelText(map[string]string{name: other}), 4*len(name+other)+5)
		word := ShellWord(name)
		seen("ShellWord", word, 4*len(name)+3)
		read(word, name)
		special := strings.HasPrefix(name, "=") || strings.HasPrefix(name, "~") || strings.ContainsAny(name, " \t\n\"'\\`$&|;<>(){}[]*?!#^")
		check.That(t, !special || word != name, "what zsh or a shell that is typed to does not read as it is: %q", name)

		l := NewLock(redlatch.LockInfo{Name: name, Key: other + name}, time.Time{})
		command := ReleaseCommand(l, redlatch.Holder{Owner: name})
		seen("ReleaseCommand", command, 1<<20)
		if command == "" {
			return
		}
		want := []string{"redlatch", "release", "--force", "--owner", name, "--prefix", other, "--reason", "by hand", "--", name}
		if other == defaultPrefix {
			want = slices.Delete(want, 5, 7)
		}
		read(command, want...)
	})
}
