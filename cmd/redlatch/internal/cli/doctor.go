package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
)

const doctorHelp = `Look for what can hurt locks: at each server, between them, and under the prefix.

It looks at versions, eviction, persistence, replicas and how far they are behind, the state of a cluster, clocks, the time of a round
trip against the TTL, what the user may do, whether messages arrive, the nodes of a quorum that do not vote, and at keys under the prefix
that are no locks. It changes nothing; it writes and deletes one key of its own.

Each line is ok, note, warning or fault. The exit code is 1 if there is a fault.`

func newDoctorCommand(a *app) *cobra.Command {
	ttl := 30 * time.Second
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Look for what can hurt locks, and say what to do",
		Long:    doctorHelp,
		Example: "  redlatch doctor\n  redlatch doctor --ttl 2s\n  redlatch doctor --json | jq 'select(.level == \"fault\")'",
		Args:    nothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ttl < 100*time.Millisecond || ttl > 24*time.Hour {
				return usagef("", "--ttl is %v: it must be between 100ms and 24h", ttl)
			}
			return a.doctor(cmd.Context(), doctor.Options{URLs: a.urls(), Prefix: a.prefix, TTL: ttl}, asJSON)
		},
	}
	cmd.Flags().DurationVar(&ttl, "ttl", ttl, "the shortest TTL that is used there, to compare the round trip with")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line: server, check, level, found, advice")
	return cmd
}

func (a *app) doctor(ctx context.Context, o doctor.Options, asJSON bool) error {
	faults := 0
	var broken error
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	err := doctor.Examine(ctx, o, func(f doctor.Finding) {
		if f.Level == doctor.Fault {
			faults++
		}
		if asJSON {
			if err := a.answerJSON(f); err != nil {
				broken = err
			}
			return
		}
		server := f.Server
		if server == "" {
			server = "all"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Level, server, f.Check, harmless(f.Found))
		if f.Advice != "" {
			fmt.Fprintf(w, "\t\t\t  %s\n", harmless(f.Advice))
		}
	})
	if err == nil {
		err = broken
	}
	if err == nil && !asJSON {
		err = w.Flush()
	}
	if err == nil && faults > 0 {
		err = &failure{code: exitFailure}
	}
	return err
}

// harmless is text that no terminal takes for a command. The names in it are quoted.
func harmless(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return '?'
		}
		return r
	}, text)
}
