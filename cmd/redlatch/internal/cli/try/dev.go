package try

import (
	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/redlatchtest"
)

func newDevCommand(a *app.App) *cobra.Command {
	listen := "127.0.0.1:6379"
	cmd := app.Command("dev", app.Nothing, func(cmd *cobra.Command, _ []string) error {
		open, err := app.IsOpen(listen)
		if err != nil {
			return err
		}
		ctx, stop := app.UntilSignal(cmd.Context())
		defer stop()
		server, err := redlatchtest.Listen(listen)
		if err != nil {
			return app.CannotListen(listen, err)
		}
		defer server.Close()
		if err := a.Answer("%s\n", server.URL()); err != nil {
			return err
		}
		if open {
			a.Say("--listen %s is open to other machines, and no password keeps them out", listen)
		}
		a.Say("serving until INT or TERM; nothing is kept")
		if listen == "127.0.0.1:6379" {
			a.Hint("try `redlatch run hello -- sleep 10` in two other terminals, and `redlatch ls` in a third")
		} else {
			a.Hint("try `REDLATCH_REDIS=%s redlatch run hello -- sleep 10` in another terminal", server.URL())
		}
		<-ctx.Done()
		return nil
	})
	cmd.Annotations = map[string]string{app.TalksToNone: "yes"}
	cmd.Flags().StringVar(&listen, "listen", listen, "`ADDRESS` to listen on; port 0 for any")
	return cmd
}
