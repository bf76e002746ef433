package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/redlatchtest"
)

func newDevCommand(a *app) *cobra.Command {
	listen := "127.0.0.1:6379"
	cmd := command("dev", nothing, func(cmd *cobra.Command, _ []string) error {
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		server, err := redlatchtest.Listen(listen)
		if err != nil {
			return &failure{exitFailure, fmt.Errorf("cannot listen on %s: %w", listen, err), "if a server runs there already, use it; or give another address with --listen"}
		}
		defer server.Close()
		if err := a.answer("%s\n", server.URL()); err != nil {
			return err
		}
		a.say("serving until INT or TERM; nothing is kept")
		if listen == "127.0.0.1:6379" {
			a.hint("try `redlatch run hello -- sleep 10` in two other terminals, and `redlatch ls` in a third")
		} else {
			a.hint("try `REDLATCH_REDIS=%s redlatch run hello -- sleep 10` in another terminal", server.URL())
		}
		<-ctx.Done()
		return nil
	})
	cmd.Annotations = map[string]string{talksToNone: "yes"}
	cmd.Flags().StringVar(&listen, "listen", listen, "`ADDRESS` to listen on; port 0 for any")
	return cmd
}
