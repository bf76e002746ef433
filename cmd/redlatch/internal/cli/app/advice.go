package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
)

// The hints of what Redis, or what answers in its place, says of a request.
const (
	hintUnreachable = "start a server with `redlatch dev` or `redis-server`, or name one with --redis URL or REDLATCH_REDIS"
	hintSilent      = "a server listens there and does not answer in time: see its log and its load, a slow command, a firewall"
	hintResting     = "wait until the nodes have rested, as they do after a restart: `redlatch doctor` tells for how long"
	hintNoTLS       = "see whether a server is up there, and speaks TLS at this port: rediss:// is for no other"
	hintTLS         = "a server that speaks TLS at this port answers so: try rediss:// in place of redis://"
	hintCA          = "name the authority that signed the certificate: ?ca=FILE at the end of the URL, a file in PEM"
	hintCertificate = "the certificate is not for the host in the URL, or not valid today: connect by a name that it has"
	hintNoRedis     = "what answers at this port is no Redis: see the port in the URL"
	hintNoHost      = "see the name of the host in the URL"
	hintReplica     = "a replica takes no locks: name its master, or Sentinel (redis+sentinel://host,host/master-name)"
	hintNoPassword  = "the server wants a password: put redis://USER:PASSWORD@host:port into REDLATCH_REDIS, " +
		"or into a file that REDLATCH_REDIS_FILE names"
	hintKept = "`redlatch run` keeps the password from its command: run it with --keep-password, or with the URL in a file that " +
		"REDLATCH_REDIS_FILE names"
	hintPassword = "the user or the password in REDLATCH_REDIS, REDLATCH_REDIS_FILE or --redis is wrong"
	hintRights   = "`redlatch doctor --acl` prints the line for Redis that gives this user its rights"
	hintLoading  = "the server has just started and is loading its data: wait until it has"
	hintCrowded  = "the server has as many connections as its maxclients allows: stop some clients, or raise it by a connection that is open"
	hintSentinel = "Sentinel names a server that is no master: look again when its failover is over, or see what `SENTINEL MASTERS` says"
	hintFull     = "the server is out of memory: `redlatch doctor` looks at its limit and its policy"
	hintDatabase = "the server has fewer databases than that: give a smaller number at the end of the URL, or none"
	hintPlain    = "what answers at this port is no Sentinel, which listens on 26379 as a rule: redis:// is for a server itself"
	hintDisk     = "the server cannot save its data, and so refuses writes: see its log, and the disk"
)

// refusals are the hints by the code with which an error of Redis begins.
var refusals = map[string]string{
	"READONLY": hintReplica, "MASTERDOWN": hintReplica, "NOAUTH": hintNoPassword, "WRONGPASS": hintPassword, "NOPERM": hintRights,
	"LOADING": hintLoading, "OOM": hintFull, "MISCONF": hintDisk,
}

// signs are the hints by a part of the text of an error, for redis:// and for rediss://. The first
// that fits counts.
var signs = []struct{ text, plain, secure string }{
	{"signed by unknown authority", hintCA, hintCA},
	{"x509: ", hintCertificate, hintCertificate},
	{"received unknown message type", hintNoRedis, hintNoRedis},
	{"no such host", hintNoHost, hintNoHost},
	{"max number of clients", hintCrowded, hintCrowded},
	{"role is not master", hintSentinel, hintSentinel},
	{"connection refused", hintUnreachable, hintNoTLS},
	{"does not vote", hintResting, hintResting},
	{"TLS handshake", hintNoTLS, hintNoTLS},
	{"no answer in time", hintSilent, hintSilent},
	{"connection reset by peer", hintTLS, hintNoTLS},
	{"EOF", hintTLS, hintNoTLS},
	{"", hintUnreachable, hintNoTLS},
}

// Advice returns what to do about an error of the connection to these servers; "" if err is of
// another sort.
func Advice(err error, urls []string) string {
	if refused := (*conn.ReplyError)(nil); errors.As(err, &refused) {
		switch {
		case refused.Code() == "NOAUTH" && len(Inherited()) > 0:
			return hintKept
		case strings.Contains(refused.Text, "DB index is out of range"):
			return hintDatabase
		case strings.Contains(refused.Text, "unknown command") && strings.Contains(refused.Text, "SENTINEL"):
			return hintPlain
		}
		return refusals[refused.Code()]
	}
	if errors.Is(err, redlatch.ErrInvalid) {
		bare := func(url string) bool { return url != "" && !strings.ContainsAny(url, "/@") }
		if i := slices.IndexFunc(urls, bare); i >= 0 { // neither a scheme nor a password
			return fmt.Sprintf("did you mean redis://%s?", urls[i])
		}
		return ""
	}
	if !errors.Is(err, redlatch.ErrUnreachable) {
		return ""
	}
	secure := slices.ContainsFunc(urls, func(url string) bool { return strings.HasPrefix(url, "rediss") })
	for _, sign := range signs {
		if strings.Contains(err.Error(), sign.text) {
			if secure {
				return sign.secure
			}
			return sign.plain
		}
	}
	return ""
}
