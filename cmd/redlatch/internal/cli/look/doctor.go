package look

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/terminal"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

func newDoctorCommand(a *app.App) *cobra.Command {
	ttl := 30 * time.Second
	var probe, acl bool
	cmd := app.Command("doctor", app.Nothing, func(cmd *cobra.Command, _ []string) error {
		if _, _, err := a.Servers(); err != nil {
			return err
		}
		if err := keys.Check(a.Prefix); err != nil && a.Prefix != "" {
			return fmt.Errorf("%w: --prefix %q: %w", redlatch.ErrInvalid, a.Prefix, err)
		}
		o := told(a, ttl)
		if acl {
			const text = "--OTHER is not for --acl, which looks at nothing"
			refusal := app.Refuse(cmd.Flags(), app.Clash("acl", "probe json ttl", text, ""))
			lines, err := doctor.Access(o)
			if err = cmp.Or(refusal, err); err != nil {
				return err
			}
			return a.Answer("%s\n", strings.Join(lines, "\n"))
		}
		look := doctor.Examine
		if probe {
			look = doctor.Probe
		}
		return examine(a, func(tell func(doctor.Finding)) error { return look(cmd.Context(), o, tell) })
	})
	cmd.Flags().DurationVar(&ttl, "ttl", ttl, "the shortest TTL that is used there, to compare the round trip with")
	app.Between(cmd.Flags(), "ttl", &ttl, app.MinTTL, app.MaxTTL)
	cmd.Flags().BoolVar(&probe, "probe", false, "try what redlatch needs of a server, and say what would be missing")
	cmd.Flags().BoolVar(&acl, "acl", false, "print the commands for Redis that give the user its rights, and look at nothing")
	cmd.Flags().BoolVar(&a.JSON, "json", false, "print JSON, one object a line: server, check, level, found, advice")
	return cmd
}

// told returns what the doctor needs to know about the servers and this program.
func told(a *app.App, ttl time.Duration) doctor.Options {
	explain := func(err error, url string) (found, advice string) {
		return talk.Unconnected(err), a.Advice(err, []string{url})
	}
	return doctor.Options{URLs: a.URLs(), Prefix: a.Prefix, TTL: ttl, Explain: explain, Again: a.AgainOn}
}

// examine prints what a look at a deployment finds.
func examine(a *app.App, look func(tell func(doctor.Finding)) error) error {
	var all []doctor.Finding
	var broken error
	err := look(func(f doctor.Finding) {
		all = append(all, f)
		if a.JSON {
			broken = cmp.Or(broken, a.AnswerJSON(f))
		}
	})
	if err = cmp.Or(err, broken); err == nil && !a.JSON {
		width, colour := terminal.Of(a.Stdout)
		err = a.Answer("%s", doctor.Text(all, width, colour))
	}
	fault := func(f doctor.Finding) bool { return f.Level == doctor.Fault }
	if err == nil && slices.ContainsFunc(all, fault) {
		err = exit.Silent(exit.Failed)
	}
	return err
}
