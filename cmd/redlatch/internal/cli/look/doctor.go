package look

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/terminal"
)

func newDoctorCommand(a *app.App) *cobra.Command {
	ttl := 30 * time.Second
	var asJSON, probe, acl bool
	cmd := app.Command("doctor", app.Nothing, func(cmd *cobra.Command, _ []string) error {
		if err := app.Within(cmd.Flags(), "ttl", ttl, app.MinTTL, app.MaxTTL); err != nil {
			return err
		}
		o := doctor.Options{URLs: a.URLs(), Prefix: a.Prefix, TTL: ttl}
		look := doctor.Examine
		switch {
		case acl:
			if err := app.Refuse(cmd.Flags(), app.Clash("acl", "probe json ttl", "--OTHER is not for --acl, which looks at nothing", "")); err != nil {
				return err
			}
			lines, err := doctor.Access(o)
			if err != nil {
				return err
			}
			return a.Answer("%s\n", strings.Join(lines, "\n"))
		case probe:
			look = doctor.Probe
		}
		return examine(cmd.Context(), a, look, o, asJSON)
	})
	cmd.Flags().DurationVar(&ttl, "ttl", ttl, "the shortest TTL that is used there, to compare the round trip with")
	cmd.Flags().BoolVar(&probe, "probe", false, "try what redlatch needs of a server, and say what would be missing")
	cmd.Flags().BoolVar(&acl, "acl", false, "print the command for Redis that gives the user its rights, and look at nothing")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one object a line: server, check, level, found, advice")
	return cmd
}

// looking is a way to look at a deployment: Examine or Probe.
type looking func(context.Context, doctor.Options, func(doctor.Finding)) error

func examine(ctx context.Context, a *app.App, look looking, o doctor.Options, asJSON bool) error {
	var all []doctor.Finding
	var broken error
	err := look(ctx, o, func(f doctor.Finding) {
		all = append(all, f)
		if asJSON {
			broken = cmp.Or(broken, a.AnswerJSON(f))
		}
	})
	if err = cmp.Or(err, broken); err == nil && !asJSON {
		width, colour := terminal.Of(a.Stdout)
		err = a.Answer("%s", doctor.Text(all, width, colour))
	}
	if err == nil && slices.ContainsFunc(all, func(f doctor.Finding) bool { return f.Level == doctor.Fault }) {
		err = exit.Silent(exit.Failed)
	}
	return err
}
