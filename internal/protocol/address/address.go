// Package address reads the URLs that lead to Redis:
//
//	redis://user:password@host:6379/0                    one server, or any node of a cluster
//	rediss://...                                         the same with TLS, and so below
//	unix:///run/redis.sock?db=0
//	redis+sentinel://host1,host2,host3/master-name/0     the master that Sentinel names; rediss+sentinel://
//	redis+cluster://host1,host2                          a cluster, by some of its nodes; rediss+cluster://
//
// Parameters after the question mark: dial_timeout and write_timeout (as Go durations); with TLS:
// ca, cert and key (PEM files) and server_name; with Sentinel: sentinel_username and
// sentinel_password.
//
// No error of this package repeats a part of the URL that can hold a password. The command removes
// passwords from all that it prints (Redacted in cmd/redlatch/internal/cli/talk/password.go).
package address

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Parse returns the options with which rueidis dials what the URL names, and whether that must be a
// cluster.
func Parse(text string) (o rueidis.ClientOption, cluster bool, err error) {
	p, err := split(text)
	if err != nil {
		return o, false, err
	}
	o.Username, o.Password = p.user.Username(), password(p.user)
	if err = p.place(&o); err == nil {
		err = p.parameters(&o)
	}
	switch {
	case err != nil && p.torn: // the text of err may repeat a part of a password
		return o, false, errParts
	case err != nil:
		return o, false, err
	}
	return o, p.form == "cluster", nil
}

// parts is a URL in pieces. net/url itself accepts no list of hosts.
type parts struct {
	secure bool
	form   string // "", "unix", "sentinel" or "cluster"
	torn   bool   // what was meant as user and password may be in path and query
	user   *url.Userinfo
	hosts  []string // host:port
	path   []string
	query  url.Values
}

var errForm = errors.New("give redis://[user:password@]host:port[/db], rediss://..., unix:///path, " +
	"redis+sentinel://host,host/master-name[/db] or redis+cluster://host,host")

// errParts is for a URL that a character that is not encoded may have torn apart.
var errParts = errors.New("a port must be a number up to 65535, and / ? # and % in a user or a password must be percent-encoded, " +
	"as %2F %3F %23 and %25")

var errSeveral = errors.New("it is several URLs: give each node of a quorum by itself " +
	"(the command takes --redis once for each, and REDLATCH_REDIS with spaces between them)")

func split(text string) (p parts, err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return p, errForm
	}
	switch scheme {
	case "redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster":
		_, p.form, _ = strings.Cut(scheme, "+")
	case "unix":
		p.form = scheme
	default:
		return p, fmt.Errorf("it begins with %q: %w", scheme+"://", errForm)
	}
	if strings.Contains(rest, ",redis") && strings.Contains(rest, "://") {
		return p, errSeveral
	}
	p.secure = strings.HasPrefix(scheme, "rediss")
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	at := strings.LastIndexByte(rest[:end], '@')
	first, others, _ := strings.Cut(rest[at+1:end], ",")
	u, err := url.Parse(scheme + "://" + rest[:at+1] + first + rest[end:])
	if err != nil || u.Fragment != "" {
		return p, errParts // the text of err repeats the URL, and with it the password
	}
	if p.query, err = url.ParseQuery(u.RawQuery); err != nil {
		return p, errParts
	}
	for parameter := range strings.SplitSeq(u.RawQuery, "&") { // names must be found in a printed URL
		name, value, _ := strings.Cut(parameter, "=")
		if strings.ContainsAny(name, "%+") || name == "sentinel_password" && strings.Contains(value, " ") {
			return p, errors.New("the name of a parameter must be written as it is, and a blank in a password as %20")
		}
	}
	p.user, p.torn = u.User, u.User == nil && strings.Contains(rest[end:], "@")
	if p.form == "unix" {
		p.path = []string{u.Path}
		return p, nil
	}
	if p.form != "sentinel" && strings.Contains(u.Path, "@") { // the path begins within a password
		return p, errParts
	}
	p.path = strings.Split(strings.Trim(u.Path, "/"), "/")
	for _, host := range append([]string{u.Host}, strings.Split(others, ",")...) {
		if host == "" {
			continue
		}
		host = p.withPort(host)
		if _, port, err := net.SplitHostPort(host); err != nil || !isPort(port) {
			return p, errParts
		}
		p.hosts = append(p.hosts, host)
	}
	return p, nil
}

// withPort adds the default port if none is given.
func (p parts) withPort(host string) string {
	if name, port, err := net.SplitHostPort(host); err == nil {
		if name == "" {
			name = "localhost"
		}
		return net.JoinHostPort(name, port)
	}
	port := "6379"
	if p.form == "sentinel" {
		port = "26379"
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// place fills in where to dial.
func (p parts) place(o *rueidis.ClientOption) error {
	o.InitAddress = p.hosts
	if p.secure {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	db := p.path[0]
	switch p.form {
	case "unix":
		if db == "" || db == "/" {
			return errors.New("it names no socket: give unix:///path")
		}
		o.InitAddress, db = p.path, p.query.Get("db")
		o.ForceSingleClient = true
		o.DialCtxFn = func(ctx context.Context, path string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
	case "sentinel":
		if db == "" || len(p.path) > 2 {
			return errors.New("it names no master: give redis+sentinel://host,host/master-name[/db]")
		}
		o.Sentinel.MasterSet, o.Sentinel.TLSConfig, db = db, o.TLSConfig, ""
		o.Sentinel.TopologyRefreshInterval = 5 * time.Second // in case the news of a failover is missed
		if len(p.path) == 2 {
			db = p.path[1]
		}
	case "cluster":
		if db != "" {
			return errors.New("it has a path: a cluster has no database numbers")
		}
	default:
		if len(p.hosts) > 1 {
			return errors.New("it names several hosts: commas are for redis+sentinel:// and redis+cluster://")
		}
		if len(p.path) > 1 {
			return errForm
		}
		if p.secure && len(p.hosts) == 1 {
			o.TLSConfig.ServerName, _, _ = net.SplitHostPort(p.hosts[0])
		}
	}
	if len(o.InitAddress) == 0 {
		if p.form != "" {
			return errors.New("it names no host")
		}
		o.InitAddress = []string{"localhost:6379"}
	}
	if db == "" {
		return nil
	}
	n, err := strconv.Atoi(db)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no database number", db)
	}
	o.SelectDB = n
	return nil
}

// parameters fills in what comes after the question mark.
func (p parts) parameters(o *rueidis.ClientOption) (err error) {
	known := p.known()
	for name, values := range p.query {
		value := values[0]
		switch {
		case strings.Contains(name, "@"): // the name begins within a password
			err = errParts
		case !slices.Contains(known, name):
			err = fmt.Errorf("%q is no parameter of such a URL, which may have %s", name, strings.Join(known, ", "))
		case len(values) > 1:
			err = fmt.Errorf("the parameter %s is there more than once", name)
		case name == "dial_timeout":
			o.Dialer.Timeout, err = positive(name, value)
		case name == "write_timeout":
			o.ConnWriteTimeout, err = positive(name, value)
		case name == "server_name":
			o.TLSConfig.ServerName = value
		case name == "sentinel_username":
			o.Sentinel.Username = value
		case name == "sentinel_password":
			o.Sentinel.Password = value
		}
		if err != nil {
			return err
		}
	}
	if p.secure {
		return p.certificates(o.TLSConfig)
	}
	return nil
}

// known returns the parameters that such a URL may have.
func (p parts) known() []string {
	names := []string{"dial_timeout", "write_timeout"}
	if p.secure {
		names = append(names, "ca", "cert", "key", "server_name")
	}
	switch p.form {
	case "unix":
		names = append(names, "db")
	case "sentinel":
		names = append(names, "sentinel_username", "sentinel_password")
	}
	return names
}

func (p parts) certificates(c *tls.Config) error {
	if ca := p.query.Get("ca"); ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			return fmt.Errorf("ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("ca: %s has no certificate in PEM form", ca)
		}
	}
	cert, key := p.query.Get("cert"), p.query.Get("key")
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return errors.New("cert and key go together")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("cert and key: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return nil
}

func positive(name, value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s is %q: give a duration such as 500ms", name, value)
	}
	return d, nil
}

func isPort(text string) bool {
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}

func password(u *url.Userinfo) string {
	text, _ := u.Password()
	return text
}
