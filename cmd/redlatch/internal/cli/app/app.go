// Package app holds what the commands of redlatch share: common flags, connecting to the server,
// help pages, and the refusal of flags and arguments that make no sense.
package app

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/pace"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/fleet"
)

// DefaultPrefix is the prefix of every key in Redis if there is no --prefix.
const DefaultPrefix = "redlatch:"

// App is one run of the program.
type App struct {
	*talk.Streams
	Redis   []string // --redis, or none; see URLs
	From    string   // the variable that replaces --redis; "" for none
	Prefix  string   // --prefix
	Version string   // of the program, in words
	Adopted string   // the name of the lock whose lease was given as a text, or ""

	filed []string // URLs from a file; it may be a pipe, so it is read once
}

// UntilSignal returns a context that ends at SIGINT or SIGTERM.
func UntilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
}

// Noting makes a client say once that Redis refuses its journal entries. Other messages report an
// outage of Redis.
func (a *App) Noting() redlatch.JournalOptions {
	return redlatch.JournalOptions{Trouble: func(err error) {
		if refused := (*conn.ReplyError)(nil); errors.As(err, &refused) {
			lack, rest := "may lack entries of this process", "" // the client writes them later
			if refused.Code() == "NOPERM" {
				lack, rest = "will not show this process", "; everything else works"
			}
			a.Say("cannot write to the journal, so `redlatch log` %s: %s%s", lack, talk.Text(err), rest)
		}
	}}
}

// Watch tells the user when Redis stops answering or refuses requests, and when that ends. It asks
// once a second until stop is called. Without it, the command would be silent during an outage.
func (a *App) Watch(ask func() error) (stop func()) {
	a.Date()
	var down time.Time
	var over string // the words for the end of the outage
	return pace.Every(time.Second, time.Second, func() {
		asked := time.Now()
		switch err := ask(); {
		case err != nil && down.IsZero():
			down = asked
			what := "Redis does not answer"
			if over = "Redis answers again"; !errors.Is(err, redlatch.ErrUnreachable) {
				what, over = "cannot read from Redis", "reading from Redis works again"
			}
			a.Say("%s: %s", what, talk.Text(err))
		case err == nil && !down.IsZero():
			a.Say("%s, %s later", over, fleet.Span(time.Since(down)))
			down = time.Time{}
		}
	})
}

// Again returns a command line for the same server and prefix, without the password.
func (a *App) Again(args ...string) string {
	line := []string{"redlatch"}
	for _, url := range a.Redis {
		if talk.Secret(url) || strings.Contains(url, "?") {
			url = "URL"
		}
		line = append(line, "--redis", fleet.ShellWord(url))
	}
	if a.Prefix != DefaultPrefix {
		line = append(line, "--prefix", fleet.ShellWord(a.Prefix))
	}
	for _, arg := range args {
		line = append(line, fleet.ShellWord(arg))
	}
	return strings.Join(line, " ")
}

// AgainOn is like Again, with the name of a lock as the last argument.
func (a *App) AgainOn(name string, args ...string) string {
	if strings.HasPrefix(name, "-") { // or it would be read as a flag
		args = append(args, "--")
	}
	return a.Again(append(args, name)...)
}

// heldVariable tells a command, and each redlatch that it starts, which leases are held while it
// runs. That is how a deadlock of nested `redlatch run` is found. It is not for users.
const heldVariable = "REDLATCH_HELD"

// Inherited returns the leases that are held while this process runs. It returns none if the
// variable is malformed.
func Inherited() []redlatch.Held {
	var held []redlatch.Held
	if json.Unmarshal([]byte(os.Getenv(heldVariable)), &held) != nil {
		return nil
	}
	return held
}

// HandDown returns the environment variable for a command that runs under the lease.
func HandDown(lease *redlatch.Lease) string {
	held := redlatch.Held{Name: lease.Name(), Owner: lease.Owner(), Token: lease.Token()}
	for _, fact := range lease.LogValue().Group() {
		if fact.Key == "kind" {
			held.Kind = fact.Value.String()
		}
	}
	text, _ := json.Marshal(append(Inherited(), held)) // plain fields
	return heldVariable + "=" + string(text)
}
