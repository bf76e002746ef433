package cli

import (
	"cmp"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// rule says which flags do not go together. Its flags are separated by blanks.
type rule struct {
	flags, not string // a flag of the first with another one of the second
	text       string // the error; FLAG and OTHER stand for the two
	hint       string
}

// refuse returns the error of the first rule that the command line breaks.
func refuse(typed *pflag.FlagSet, rules []rule) error {
	for _, r := range rules {
		for flag := range strings.FieldsSeq(r.flags) {
			for other := range strings.FieldsSeq(r.not) {
				if flag != other && typed.Changed(flag) && typed.Changed(other) {
					return usagef(r.hint, "%s", strings.NewReplacer("FLAG", flag, "OTHER", other).Replace(r.text))
				}
			}
		}
	}
	return nil
}

// lacks refuses each of these flags, separated by blanks, without the flag that it belongs to.
func lacks(typed *pflag.FlagSet, needed, flags string) error {
	for flag := range strings.FieldsSeq(flags) {
		if typed.Changed(flag) && !typed.Changed(needed) {
			return usagef("", "--%s goes with --%s", flag, needed)
		}
	}
	return nil
}

// within refuses a value that a flag was given and that is out of bounds.
func within[T cmp.Ordered](typed *pflag.FlagSet, flag string, value, low, high T) error {
	if typed.Changed(flag) && (value < low || value > high) {
		return usagef("", "--%s is %v: it must be between %v and %v", flag, value, low, high)
	}
	return nil
}

// The bounds of --ttl, --min-hold and --max-waiters, which are those of the library.
const (
	minTTL     = 100 * time.Millisecond
	maxTTL     = 24 * time.Hour
	maxWaiters = 1000
)
