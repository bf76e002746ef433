package app

import (
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
)

// Rule says which flags do not go together.
type Rule struct{ flags, not, text, hint string }

// Clash returns the rule for a flag of the first list with another one of the second; a list is
// separated by blanks. In text, which is the error, FLAG and OTHER stand for the two.
func Clash(flags, not, text, hint string) Rule { return Rule{flags, not, text, hint} }

// Refuse returns the error of the first rule that the command line breaks.
func Refuse(typed *pflag.FlagSet, rules ...Rule) error {
	for _, r := range rules {
		for flag := range strings.FieldsSeq(r.flags) {
			for other := range strings.FieldsSeq(r.not) {
				if flag != other && typed.Changed(flag) && typed.Changed(other) {
					return exit.Usagef(r.hint, "%s", strings.NewReplacer("FLAG", flag, "OTHER", other).Replace(r.text))
				}
			}
		}
	}
	return nil
}

// Lacks refuses each of these flags, separated by blanks, without the flag that it belongs to.
func Lacks(typed *pflag.FlagSet, needed, flags string) error {
	for flag := range strings.FieldsSeq(flags) {
		if typed.Changed(flag) && !typed.Changed(needed) {
			return exit.Usagef("", "--%s goes with --%s", flag, needed)
		}
	}
	return nil
}

// Within refuses a value that a flag was given and that is out of bounds.
func Within[T cmp.Ordered](typed *pflag.FlagSet, flag string, value, low, high T) error {
	if typed.Changed(flag) && (value < low || value > high) {
		return exit.Usagef("", "--%s is %v: it must be between %v and %v", flag, value, low, high)
	}
	return nil
}

// TooLong reports whether a text is a time, and longer than [Longest].
func TooLong(text string) bool {
	_, err := time.ParseDuration(text)
	return err != nil && duration.MatchString(text)
}

var duration = regexp.MustCompile(`^[-+]?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`)

// Longest is the longest time, in words.
const Longest = "2562047h, which is 292 years"

// The bounds of --ttl, --min-hold and --max-waiters, which are those of the library.
const (
	MinTTL     = 100 * time.Millisecond
	MaxTTL     = 24 * time.Hour
	MaxWaiters = 1000
)
