package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/internal/fleet"
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
	faults := 0
	var broken error
	var page bytes.Buffer
	w := tabwriter.NewWriter(&page, 0, 0, 2, ' ', 0)
	err := look(ctx, o, func(f doctor.Finding) {
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.Level, server, f.Check, fleet.OneLine(f.Found))
		if f.Advice != "" {
			fmt.Fprintf(w, "\t\t\t  %s\n", fleet.OneLine(f.Advice))
		}
	})
	if err == nil {
		err = broken
	}
	if err == nil && !asJSON {
		err = errors.Join(w.Flush(), a.paintLevels(page.String()))
	}
	if err == nil && faults > 0 {
		err = &failure{code: exitFailure}
	}
	return err
}

// paintLevels prints findings: on a terminal with a colour for each level, and lines that fit.
func (a *app) paintLevels(page string) error {
	width, colour := terminalOf(a.stdout)
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if indent == 0 {
			indent = len(levelColumn.FindString(line))
		}
		line, paste, found := strings.Cut(line, " ACL SETUSER ")
		text := fold(line, width, indent)
		if found && width > 0 { // a line to paste stays one, on its own
			text += "ACL SETUSER " + paste + "\n"
		} else if found {
			text = line + " ACL SETUSER " + paste + "\n"
		}
		if level, rest, ok := strings.Cut(text, " "); ok && colour {
			text = paintLevel(level) + " " + rest
		}
		if err := a.answer("%s", text); err != nil {
			return err
		}
	}
	return nil
}

// levelColumn matches the first three columns of a finding.
var levelColumn = regexp.MustCompile(`^\S+ +\S+ +\S+(?: \S+)* +`)

// paintLevel is the level of a finding in its colour; what is no level stays as it is.
func paintLevel(level string) string {
	colour := map[doctor.Level]string{doctor.OK: green, doctor.Note: dim, doctor.Warning: yellow, doctor.Fault: red}[doctor.Level(level)]
	if colour == "" {
		return level
	}
	return "\x1b[" + colour + "m" + level + "\x1b[0m"
}
