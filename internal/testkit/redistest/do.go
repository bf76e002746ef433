package redistest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// Do sends one command over a connection of its own and returns the reply as text: a nil as "", a
// list as its items line by line. An error reply fails the test. Where a cluster says that it is
// down, Do asks again for a while: nodes that a busy machine gave no time take each other for dead.
func (s *Server) Do(args ...string) string {
	s.helper()
	text, err := s.DoErr(args...)
	for end := time.Now().Add(patience); err != nil && strings.HasPrefix(err.Error(), "CLUSTERDOWN") && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		text, err = s.DoErr(args...)
	}
	if err != nil {
		s.fail("%s: %v", args, err)
	}
	return text
}

// DoErr is [Server.Do] for a command that may fail. The text of an error reply is the text of the
// error.
func (s *Server) DoErr(args ...string) (string, error) {
	c, err := s.dial()
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	r := bufio.NewReader(c)
	if s.password != "" {
		if _, err := roundTrip(c, r, "AUTH", s.password); err != nil {
			return "", err
		}
	}
	return roundTrip(c, r, args...)
}

func (s *Server) dial() (net.Conn, error) {
	if s.tls != nil {
		return tls.Dial("tcp", s.addr, s.tls)
	}
	return net.DialTimeout("tcp", s.addr, patience)
}

// Commands is how many commands the server has run since it started (total_commands_processed). It
// counts those that scripts run, and Commands itself: between two calls of it lies one INFO, and
// one AUTH if there is a password.
func (s *Server) Commands() int64 {
	s.helper()
	info := s.Do("INFO", "stats")
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "total_commands_processed:"); ok {
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				s.fail("total_commands_processed: %v", err)
			}
			return n
		}
	}
	s.fail("INFO stats lacks total_commands_processed:\n%s", info)
	return 0
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
		return "", errors.New(rest)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 { // -1 is nil
			return "", err
		}
		if kind == '$' {
			return readText(r, n)
		}
		return readList(r, n)
	default:
		return "", fmt.Errorf("no RESP2 reply: %q", line)
	}
}

func readText(r *bufio.Reader, n int) (string, error) {
	text := make([]byte, n+len("\r\n"))
	_, err := io.ReadFull(r, text)
	return string(text[:n]), err
}

func readList(r *bufio.Reader, n int) (string, error) {
	items := make([]string, n)
	for i := range items {
		item, err := readReply(r)
		if err != nil {
			return "", err
		}
		items[i] = item
	}
	return strings.Join(items, "\n"), nil
}
