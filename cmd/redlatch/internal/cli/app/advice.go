package app

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/protocol/address"
)

// refusals maps the code at the start of a Redis error to a hint.
var refusals = map[string]string{
	"READONLY":   "a replica takes no locks: name its master, or Sentinel (redis+sentinel://host,host/master-name)",
	"MASTERDOWN": "a replica takes no locks: name its master, or Sentinel (redis+sentinel://host,host/master-name)",
	"NOAUTH": "the server needs a password: put redis://USER:PASSWORD@host:port into REDLATCH_REDIS, " +
		"or into a file that REDLATCH_REDIS_FILE names",
	"WRONGPASS":   "the user or the password in REDLATCH_REDIS, REDLATCH_REDIS_FILE or --redis is wrong",
	"NOPERM":      "`redlatch doctor --acl` prints the commands for Redis that give this user its rights",
	"LOADING":     "the server has just started and is loading its data: wait until it has",
	"TRYAGAIN":    "the keys of that name are being moved to another node, or a move was left half done: see `redis-cli --cluster check`",
	"CLUSTERDOWN": "the cluster does not serve that name: `redlatch doctor` looks at each of its nodes",
	"BUSY":        "another program's script blocks the server: see its log; `redis-cli SCRIPT KILL` ends a script that has written nothing",
	"OOM":         "the server is out of memory: `redlatch doctor` looks at its limit and its policy",
	"NOREPLICAS":  "fewer replicas than its min-replicas-to-write are in touch with the server: start them, or lower that number",
	"MISCONF":     "the server cannot save its data, and so refuses writes: see its log, and the disk",
}

// signs lists a hint for each substring of an error's [talk.Text]: one for redis://, and one for
// rediss:// unless it is the same. The first match counts.
var signs = []struct{ text, plain, secure string }{
	{"does not vote", "wait: a restarted node rests before it votes, and a new quorum votes once all its nodes have answered; " +
		"`redlatch doctor` shows how long a rest lasts, and whether two URLs lead to one server", ""},
	{"signed by unknown authority", "give the authority that signed the certificate, in PEM: ?ca=FILE at the end of the URL", ""},
	{"x509: ", "the certificate is not valid for the host in the URL, or not valid today: use a host name that it lists", ""},
	{"certificate required", hintCert, ""},
	{"received unknown message type", "the program on this port is not Redis: see the port in the URL", ""},
	{"no such host", "check the host name in the URL", ""},
	{"running in protected mode", "the server lets in only clients on its own machine: give its user a password, or set protected-mode no", ""},
	{"max number of clients", "the server has as many connections as its maxclients allows: stop some clients, or raise maxclients over a connection that is still open", ""},
	{"role is not master", "Sentinel names a server that is not a master: retry after the failover, or check `SENTINEL MASTERS`", ""},
	{"connection refused", hintUnreachable, hintNoTLS},
	{"TLS handshake", hintNoTLS, ""},
	{"has passed", "--wait also limits each request: set it longer than a request takes, or use --try; otherwise check the server's log and load", ""},
	{"in time", "a server listens there and does not answer in time: see its log and its load, a slow command, a firewall", ""},
	{"connection reset by peer", hintTLS, hintCert},
	{"EOF", hintTLS, hintNoTLS},
	{"", hintUnreachable, hintNoTLS},
}

const (
	hintUnreachable = "start a server with `redlatch dev` or `redis-server`, or name one with --redis URL or REDLATCH_REDIS"
	hintOneOf       = "start the server that is down, or wait for the failover; or name others with --redis or REDLATCH_REDIS"
	hintNodes       = "`redlatch doctor` looks at each of the servers, and says which one is wrong"
	hintNoTLS       = "check that a server is up and speaks TLS on this port, which rediss:// requires"
	hintCert        = "the server may ask for a certificate: cert=FILE&key=FILE after the ? at the end of the URL; see its log"
	hintTLS         = "a TLS server answers like this on a plain connection: try rediss:// in place of redis://"
)

// Advice returns what to do about an error of the connection to these servers, or "" for any other
// error. Only if no server was named does it say to start one: another server knows none of the locks.
func (a *App) Advice(err error, urls []string) string {
	if refused := (*conn.ReplyError)(nil); errors.As(err, &refused) {
		switch {
		case refused.Code() == "NOAUTH" && len(Inherited()) > 0:
			return "`redlatch run` hides the password from its command: run it with --keep-password, or with the URL in a file that " +
				"REDLATCH_REDIS_FILE names"
		case strings.Contains(refused.Text, "DB index is out of range"):
			return "the server has fewer databases than that: give a smaller number at the end of the URL, or none"
		case strings.Contains(refused.Text, "No such master"):
			return "Sentinel watches no master of that name: see the name in the URL, and `SENTINEL MASTERS`"
		case (refused.Code() == "NOAUTH" || refused.Code() == "WRONGPASS") && !strings.Contains(err.Error(), "which Sentinel told") &&
			slices.ContainsFunc(urls, func(url string) bool { return strings.Contains(url, "+sentinel://") }):
			return "Sentinel has a password of its own: give it after the ? at the end of the URL, as sentinel_password, and its user, if any, as sentinel_username"
		case strings.Contains(refused.Text, "unknown command") && strings.Contains(refused.Text, "SENTINEL"):
			return "the program on this port is not Sentinel, which listens on 26379 as a rule: redis:// is for a server itself"
		}
		if retry.Progresses(err) {
			return "many waiters of that lock are dead, and each request drops some of them: try again"
		}
		return refusals[refused.Code()]
	}
	if errors.Is(err, redlatch.ErrInvalid) {
		bare := func(url string) bool { return url != "" && !strings.ContainsAny(url, "/@") }
		i := slices.IndexFunc(urls, bare) // neither a scheme nor a password, but perhaps the password alone
		if i < 0 {
			return ""
		}
		_, port, _ := net.SplitHostPort(urls[i])
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return "a URL looks like redis://host:6379"
		}
		return fmt.Sprintf("did you mean redis://%s?", urls[i])
	}
	if !errors.Is(err, redlatch.ErrUnreachable) {
		return ""
	}
	several := func(url string) bool {
		return strings.Contains(url, "+cluster://") || strings.Contains(url, "+sentinel://")
	}
	said, secure := talk.Text(err), slices.ContainsFunc(urls, func(url string) bool { return strings.HasPrefix(url, "rediss") })
	if len(urls) > 1 && !strings.Contains(said, "does not vote") {
		return hintNodes
	}
	for _, sign := range signs {
		if strings.Contains(said, sign.text) {
			if secure {
				return cmp.Or(sign.secure, sign.plain)
			}
			if sign.plain != hintUnreachable {
				return sign.plain
			}
			if slices.ContainsFunc(urls, several) {
				return hintOneOf
			}
			_, from, _ := a.Servers()
			if o, _, err := address.Parse(urls[0]); err == nil && from != noSource {
				return fmt.Sprintf("check that Redis runs at %s, and that this machine can reach it", strings.Join(o.InitAddress, ", "))
			}
			return hintUnreachable
		}
	}
	return ""
}
