package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/redlatch/redlatch"
)

// What names the server, or the nodes of a quorum, where there is no --redis. The first that is set
// counts.
const (
	redisVariable = "REDLATCH_REDIS"      // URLs, separated by spaces
	fileVariable  = "REDLATCH_REDIS_FILE" // a file with URLs, separated by blanks or lines
	usualVariable = "REDIS_URL"           // the URL that other programs use, too
)

// urls returns the server to use, or the nodes of a quorum; none if they cannot be found out. They
// may contain passwords, so the default of the flag, which help shows, stays empty.
func (a *app) urls() []string {
	urls, _ := a.servers()
	return urls
}

// servers is urls. The error says why a file with URLs is of no use.
func (a *app) servers() ([]string, error) {
	if len(a.redis) > 0 {
		return a.redis, nil
	}
	if urls := strings.Fields(os.Getenv(redisVariable)); len(urls) > 0 {
		return urls, nil
	}
	if path := os.Getenv(fileVariable); path != "" {
		return urlsIn(path)
	}
	if urls := strings.Fields(os.Getenv(usualVariable)); len(urls) > 0 {
		return urls, nil
	}
	return []string{defaultRedis}, nil
}

// urlsIn returns the URLs that a file has.
func urlsIn(path string) ([]string, error) {
	const hint = "the file holds one URL, or those of a quorum, a line each"
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef(hint, "%s names a file that cannot be read: %w", fileVariable, err)
	}
	urls := strings.Fields(string(data))
	if len(urls) == 0 {
		return nil, usagef(hint, "%s names a file without a URL: %s", fileVariable, path)
	}
	return urls, nil
}

// secret reports whether a URL has a password.
func secret(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	user, _, found := cutLast(rest, "@")
	return found && strings.Contains(user, ":") || strings.Contains(rest, "sentinel_password=")
}

// bare returns a URL without user and password.
func bare(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	if _, host, found := cutLast(rest, "@"); found {
		rest = host
	}
	place, query, _ := strings.Cut(rest, "?")
	var kept []string
	for parameter := range strings.SplitSeq(query, "&") {
		if parameter != "" && !strings.HasPrefix(parameter, "sentinel_") {
			kept = append(kept, parameter)
		}
	}
	if len(kept) > 0 {
		place += "?" + strings.Join(kept, "&")
	}
	return scheme + "://" + place
}

// cutLast cuts s at the last sep.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// environment returns that of a command that is started: without a password in REDLATCH_REDIS,
// unless it is to be kept. The command can have the server without the password.
func environment(keepPassword bool) []string {
	var env []string
	for _, variable := range os.Environ() {
		value, ours := strings.CutPrefix(variable, redisVariable+"=")
		if ours && !keepPassword {
			urls := strings.Fields(value)
			for i, url := range urls {
				if secret(url) {
					urls[i] = bare(url)
				}
			}
			variable = fmt.Sprintf("%s=%s", redisVariable, strings.Join(urls, " "))
		}
		env = append(env, variable)
	}
	return env
}

// warnOfPassword says that a password in --redis is no secret on this machine.
func (a *app) warnOfPassword() {
	for _, url := range a.redis {
		if secret(url) && !a.quiet {
			a.say("the password in --redis stands in the list of processes")
			a.hint("put the URL into %s, or into a file that %s names", redisVariable, fileVariable)
			return
		}
	}
}

// connect opens a client, has it used, and closes it.
func (a *app) connect(ctx context.Context, o redlatch.Options, use func(*redlatch.Client) error) error {
	client, err := a.open(ctx, o)
	if err != nil {
		return err
	}
	defer client.Close()
	return use(client)
}

// open connects to the server, or the quorum, with the prefix of the command line. The caller
// closes the client.
func (a *app) open(ctx context.Context, o redlatch.Options) (*redlatch.Client, error) {
	o.Prefix = cmp.Or(a.prefix, redlatch.NoPrefix)
	urls, err := a.servers()
	if err != nil {
		return nil, err
	}
	a.warnOfPassword()
	if len(urls) > 1 {
		return redlatch.OpenQuorum(ctx, urls, o)
	}
	return redlatch.Open(ctx, urls[0], o)
}
