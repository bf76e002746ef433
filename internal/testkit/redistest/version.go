package redistest

import (
	"cmp"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Needs skips the test on a Redis before 6.2, which lacks what the test needs.
func Needs(t testing.TB, what string) {
	t.Helper()
	text, err := exec.Command(cmp.Or(os.Getenv(BinaryVariable), "redis-server"), "--version").Output()
	if err != nil {
		return // the start will tell
	}
	if regexp.MustCompile(`v=6\.[01]\.`).Match(text) {
		t.Skipf("Redis before 6.2 has no %s", what)
	}
}

// AllowUser creates a user with these rules of ACL SETUSER. On a Redis before 6.2 rules for
// channels are left out, which it does not have, and HELLO is permitted, which the others permit by
// themselves.
func (s *Server) AllowUser(name string, rules ...string) {
	s.helper()
	args := []string{"ACL", "SETUSER", name}
	if _, err := s.DoErr(append(args, rules...)...); err == nil {
		return
	}
	for _, rule := range rules {
		if !strings.HasPrefix(rule, "&") && rule != "resetchannels" {
			args = append(args, rule)
		}
	}
	s.Do(append(args, "+hello")...)
}
