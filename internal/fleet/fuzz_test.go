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
	asked := 0
	f.Fuzz(func(t *testing.T, name, other string) {
		seen := func(what, text string, most int) {
			t.Helper()
			hidden := !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) })
			check.That(t, !hidden && len(text) <= most, "%s of %q: %q, of %d bytes", what, name, text, len(text))
		}
		seen("Visible", Visible(name), 4*len(name)+2)
		seen("OneLine", OneLine(name), 3*len(name))
		seen("LabelText", LabelText(map[string]string{name: other}), 4*len(name+other)+5)
		seen("ShellWord", ShellWord(name), 4*len(name)+3)
		check.Equal(t, words(ShellWord(name)), strconv.Quote(name), "a shell reads %s", ShellWord(name))

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
		check.Equal(t, words(command), quoted(want), "a shell reads %s", command)
		if asked++; bash == "" || asked%64 != 1 {
			return
		}
		out := check.Value(exec.Command(bash, "-c", `printf '%s\0' `+command).Output()).OK(t)
		check.Equal(t, quoted(strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")), quoted(want), "bash reads %s", command)
	})
}

// words returns the words that a shell reads, each quoted as Go does. Of what a shell does it knows only
// quotes, and refuses what else means something to bash or zsh.
func words(line string) string {
	var all []string
	var word strings.Builder
	begun := false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == ' ':
			all, begun = append(all, word.String()), false
			word.Reset()
			continue
		case c == '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return "no end of a quote"
			}
			word.WriteString(line[i+1 : i+1+end])
			i += 1 + end
		case c == '\\' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
		case c == '$' && strings.HasPrefix(line[i:], "$'"):
			for i += 2; i < len(line) && line[i] != '\''; i++ {
				if line[i] != '\\' {
					word.WriteByte(line[i])
					continue
				}
				n, err := strconv.ParseUint(line[i+1:min(i+4, len(line))], 8, 8)
				if err != nil {
					return "an escape that is none"
				}
				word.WriteByte(byte(n))
				i += 3
			}
		case strings.IndexByte("\t\n\"`$&|;<>(){}[]*?!#^", c) >= 0 || !begun && (c == '~' || c == '='):
			return "what a shell does not read as it is: " + string(c)
		default:
			word.WriteByte(c)
		}
		begun = true
	}
	return quoted(append(all, word.String()))
}

func quoted(all []string) string {
	var b []string
	for _, s := range all {
		b = append(b, strconv.Quote(s))
	}
	return strings.Join(b, " ")
}
