package app

import (
	"errors"
	"fmt"
	"net"
	"path"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
)

// OneName wants the name of one lock.
func OneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return exit.Usagef(fmt.Sprintf("`%s NAME`", cmd.CommandPath()), "%s wants the name of one lock, got %d", cmd.Name(), len(args))
	}
	return nil
}

const HintQuote = "quote the pattern, or the shell replaces it by names of files"

// OnePattern wants one pattern of names at most, and calls it what.
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

// KnownPattern refuses a pattern that makes no sense.
func KnownPattern(pattern string) error {
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return exit.Usagef("* any text, ? one character, [a-z] one of these", "pattern %q makes no sense", pattern)
	}
	return nil
}

// Nothing wants no arguments.
func Nothing(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return exit.Usagef(fmt.Sprintf("`%s`", cmd.CommandPath()), "%s takes no arguments, got %q", cmd.Name(), args[0])
	}
	return nil
}

// HostOf returns the host of an address for --listen, or refuses one that makes no sense.
func HostOf(address string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return "", exit.Usagef("an address such as 127.0.0.1:8421", "--listen %q makes no sense: %w", address, err)
	}
	return host, nil
}

// CannotListen returns the error of an address at which no server can listen.
func CannotListen(address string, err error) error {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err // which does not tell the address again
	}
	return exit.New(exit.Failed, fmt.Errorf("cannot listen on %s: %w", address, err),
		"if a server runs there already, use it; or give another address with --listen")
}
