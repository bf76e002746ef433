package app

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
)

// Rule says which flags do not go together.
type Rule struct{ flags, not, text, hint string }

// Clash returns the rule that a flag of the first list excludes every other flag of the second.
// Both lists are separated by spaces. In text, the error, FLAG and OTHER stand for the two flags.
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

// Lacks refuses each of these flags, separated by spaces, unless the needed flag is set, too.
func Lacks(typed *pflag.FlagSet, needed, flags string) error {
	for flag := range strings.FieldsSeq(flags) {
		if typed.Changed(flag) && !typed.Changed(needed) {
			return exit.Usagef("", "--%s goes with --%s", flag, needed)
		}
	}
	return nil
}

// Between makes a flag refuse values below low and above high.
func Between[T cmp.Ordered](flags *pflag.FlagSet, flag string, value *T, low, high T) {
	bound(flags, flag, func() error {
		if *value < low || *value > high {
			return exit.Usagef("", "--%s is %v: it must be between %v and %v", flag, *value, low, high)
		}
		return nil
	})
}

// AtLeast makes a flag refuse values below low.
func AtLeast[T cmp.Ordered](flags *pflag.FlagSet, flag string, value *T, low T) {
	bound(flags, flag, func() error {
		switch zero := *new(T); {
		case *value >= low:
			return nil
		case low == zero:
			return exit.Usagef("", "--%s is %v: it must not be negative", flag, *value)
		}
		return exit.Usagef("", "--%s is %v: it must be %v or more", flag, *value, low)
	})
}

// bound makes [CheckBounds] check the value of a flag.
func bound(flags *pflag.FlagSet, flag string, check func() error) {
	f := flags.Lookup(flag)
	f.Value = bounded{f.Value, check}
	if f.DefValue == "0s" { // help would show it, as it does not know the type of the value
		f.DefValue = ""
	}
}

type bounded struct {
	pflag.Value
	check func() error
}

// CheckBounds refuses flags that are out of bounds. It runs after all flags are parsed: --json,
// --help or another value of the same flag may come later on the command line.
func CheckBounds(typed *pflag.FlagSet) (err error) {
	typed.Visit(func(f *pflag.Flag) {
		if b, ok := f.Value.(bounded); ok {
			err = cmp.Or(err, b.check())
		}
	})
	return err
}

// Unitless returns an error for a duration that is a bare number, and nil for any other text.
func Unitless(flag, value string) error {
	if _, err := strconv.ParseFloat(value, 64); err != nil {
		return nil
	}
	return exit.Usagef(fmt.Sprintf("--%s %ss?", flag, value), "--%s is %s, which has no unit", flag, value)
}

// The bounds of --ttl and --min-hold, which are those of the library, and of --interval.
const (
	MinTTL      = 100 * time.Millisecond
	MaxTTL      = 24 * time.Hour
	MinInterval = 100 * time.Millisecond
)

// OneName refuses arguments other than the name of one lock.
func OneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return exit.Usagef(fmt.Sprintf("`%s NAME`", cmd.CommandPath()), "%s needs one lock name, got %d", cmd.Name(), len(args))
	}
	return nil
}

const HintQuote = "quote the pattern, or the shell replaces it by names of files"

// OnePattern refuses more than one argument, or a malformed pattern. what names it in the error.
func OnePattern(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0 || len(args) == 1 && args[0] == "":
			return nil
		case len(args) == 1:
			return KnownPattern(args[0])
		}
		return exit.Usagef(HintQuote, "%s takes one %s, got %d", cmd.Name(), what, len(args))
	}
}

// KnownPattern refuses a malformed pattern.
func KnownPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return exit.Usagef("* any text, ? one character, [a-z] one of these", "pattern %q makes no sense", pattern)
	}
	return nil
}

// Nothing refuses all arguments.
func Nothing(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef(fmt.Sprintf("`%s`", cmd.CommandPath()), "%s takes no arguments, got %q", cmd.Name(), args[0])
	}
	return nil
}

// IsOpen reports whether other machines can reach a server that listens on this address. It refuses
// a malformed address for --listen.
func IsOpen(address string) (bool, error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return false, exit.Usagef("an address such as 127.0.0.1:7000", "--listen %q makes no sense: %w", address, err)
	}
	ip := net.ParseIP(host)
	return host != "localhost" && (ip == nil || !ip.IsLoopback()), nil
}

// CannotListen returns the error for an address on which this program cannot listen.
func CannotListen(address string, err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err // without the address, which the text below has
	}
	return exit.New(exit.Failed, fmt.Errorf("cannot listen on %s: %w", address, err),
		"if a server runs there already, use it; or give another address with --listen")
}
