package app

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
)

// DefaultRedis is the server if none is named.
const DefaultRedis = "redis://127.0.0.1:6379"

// noSource is what names the server then.
const noSource = "the default"

// These variables name the server, or the nodes of a quorum, if there is no --redis. The first that
// is set counts.
const (
	RedisVariable = "REDLATCH_REDIS"      // URLs, separated by white space
	fileVariable  = "REDLATCH_REDIS_FILE" // a file with URLs, separated by white space
	usualVariable = "REDIS_URL"           // a URL, which other programs use, too
)

// URLs returns the server to use, or the nodes of a quorum. If there are none, Servers says why.
// They may contain passwords, so the flag's default, which help shows, stays empty.
func (a *App) URLs() []string {
	urls, _, _ := a.Servers()
	return urls
}

// Where returns the URLs without passwords, and what they come from if that is no flag.
func (a *App) Where() string {
	urls, from, _ := a.Servers()
	text := talk.Redacted(strings.Join(urls, " "))
	if from != "" {
		text += " (" + from + ")"
	}
	return text
}

// Servers returns the URLs, and what they come from if that is no flag. The error says why the file
// with URLs cannot be used.
func (a *App) Servers() (urls []string, from string, err error) {
	if len(a.Redis) > 0 {
		return a.Redis, a.From, nil
	}
	if urls := strings.Fields(os.Getenv(RedisVariable)); len(urls) > 0 {
		return urls, RedisVariable, nil
	}
	if path := os.Getenv(fileVariable); path != "" {
		if len(a.filed) == 0 {
			a.filed, err = urlsIn(path)
		}
		return a.filed, fileVariable, err
	}
	if urls := strings.Fields(os.Getenv(usualVariable)); len(urls) > 0 {
		return urls, usualVariable, nil
	}
	return []string{DefaultRedis}, noSource, nil
}

// urlsIn returns the URLs in a file.
func urlsIn(path string) ([]string, error) {
	const hint = "the file holds one URL, or those of a quorum, a line each"
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, exit.Usagef(hint, "%s names a file that cannot be read: %w", fileVariable, err)
	}
	urls := strings.Fields(string(data))
	if len(urls) == 0 {
		return nil, exit.Usagef(hint, "%s names a file without a URL: %s", fileVariable, path)
	}
	return urls, nil
}

// Connect opens a client, calls use with it, and closes it.
func (a *App) Connect(ctx context.Context, o redlatch.Options, use func(*redlatch.Client) error) error {
	client, err := a.Open(ctx, o)
	if err != nil {
		return err
	}
	defer client.Close()
	return use(client)
}

// Open connects to the server, or the quorum, with the prefix of the command line. The caller
// closes the client.
func (a *App) Open(ctx context.Context, o redlatch.Options) (*redlatch.Client, error) {
	o.Prefix = cmp.Or(a.Prefix, redlatch.NoPrefix)
	urls, _, err := a.Servers()
	if err != nil {
		return nil, err
	}
	if !a.Quiet && slices.ContainsFunc(a.Redis, talk.Secret) {
		a.Say("the password in --redis is visible in the process list")
		a.Hint("put the URL into %s, or into a file that %s names", RedisVariable, fileVariable)
	}
	if len(urls) > 1 {
		return redlatch.OpenQuorum(ctx, urls, o)
	}
	return redlatch.Open(ctx, urls[0], o)
}
