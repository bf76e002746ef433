package servers

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// ReplyError is an error reply.
type ReplyError string

// Error returns the text of the reply.
func (e ReplyError) Error() string { return string(e) }

// Do sends one command over its own connection and returns the reply as text: a nil as "", a list
// as its items line by line. An error reply is a [ReplyError].
func (s *Server) Do(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.limit, Patience))
	defer cancel()
	c, err := s.dial(ctx)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	r := bufio.NewReader(c)
	if s.password != "" {
		if _, err := roundTrip(c, r, "AUTH", s.password); err != nil {
			return "", err
		}
	}
	return roundTrip(c, r, args...)
}

// Fields returns the fields of an INFO, or of what is written like one.
func Fields(info string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[key] = value
	}
	return fields
}

func (s *Server) dial(ctx context.Context) (net.Conn, error) {
	if s.TLS != nil {
		return (&tls.Dialer{Config: s.TLS}).DialContext(ctx, "tcp", s.at)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", s.at)
}

func roundTrip(w io.Writer, r *bufio.Reader, args ...string) (string, error) {
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(w, request.String()); err != nil {
		return "", err
	}
	return readReply(r)
}

// readReply reads one reply of RESP2, the only protocol that Do speaks.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return "", err
	}
	kind, rest := line[0], strings.TrimRight(line[1:], "\r\n")
	switch kind {
	case '+', ':':
		return rest, nil
	case '-':
		return "", ReplyError(rest)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 { // -1 is nil
			return "", err
		}
		if kind == '$' {
			text := make([]byte, n+len("\r\n"))
			_, err := io.ReadFull(r, text)
			return string(text[:n]), err
		}
		items := make([]string, n)
		for i := range items {
			if items[i], err = readReply(r); err != nil {
				return "", err
			}
		}
		return strings.Join(items, "\n"), nil
	default:
		return "", fmt.Errorf("no RESP2 reply: %q", line)
	}
}
