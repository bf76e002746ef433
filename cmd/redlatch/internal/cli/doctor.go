package cli

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/terminal"
)

func newDoctorCommand(a *app) *cobra.Command {
	ttl := 30 * time.Second
	var asJSON, probe bool
	cmd := command("doctor", nothing, func(cmd *cobra.Command, _ []string) error {
		if err := within(cmd.Flags(), "ttl", ttl, minTTL, maxTTL); err != nil {
			return err
		}
		look := doctor.Examine
		if probe {
			look = doctor.Probe
		}
		return a.doctor(cmd.Context(), look, doctor.Options{URLs: a.urls(), Prefix: a.prefix, TTL: ttl}, asJSON)
	})
	cmd.Flags().DurationVar(&ttl, "ttl", ttl, "the shortest TTL that is used there, to compare the round trip with")
	cmd.Flags().BoolVar(&probe, "probe", false, "try what redlatch needs of a server, and say what would be missing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line: server, check, level, found, advice")
	return cmd
}

// looking is a way to look at a deployment: Examine or Probe.
type looking func(context.Context, doctor.Options, func(doctor.Finding)) error

func (a *app) doctor(ctx context.Context, look looking, o doctor.Options, asJSON bool) error {
	var all []doctor.Finding
	var broken error
	err := look(ctx, o, func(f doctor.Finding) {
		all = append(all, f)
		if asJSON {
			broken = cmp.Or(broken, a.answerJSON(f))
		}
	})
	if err = cmp.Or(err, broken); err == nil && !asJSON {
		width, colour := terminal.Of(a.stdout)
		err = a.answer("%s", doctor.Text(all, width, colour))
	}
	if err == nil && slices.ContainsFunc(all, func(f doctor.Finding) bool { return f.Level == doctor.Fault }) {
		err = &failure{code: exitFailure}
	}
	return err
}
