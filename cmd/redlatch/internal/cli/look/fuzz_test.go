//go:build !redlatch_small

package look

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// FuzzTimes reads what was typed for a time: a moment that is said to be so long ago is not in the future.
func FuzzTimes(f *testing.F) {
	for _, text := range []string{"", "90m", "-90m", "2562047h48m", "2562047h", "99999999999999999999ns", "-1µs", "1.h", "0.00000000000000000000001h", "2006-01-02", "9999-12-31T23:59:60Z", "24:00", "\x1b"} {
		f.Add(text)
	}
	now := time.Now()
	f.Fuzz(func(t *testing.T, text string) {
		at, err := moment(text, now)
		check.That(t, err == nil || strings.Contains(err.Error(), "--since"), "moment(%q) = %v", text, err)
		if _, bad := time.ParseDuration(text); bad == nil && err == nil {
			check.That(t, !at.After(now), "moment(%q) = %v", text, at)
		}
	})
}

// FuzzReadUsers reads a file of viewers: none of them goes without a password, and no error repeats one.
func FuzzReadUsers(f *testing.F) {
	for _, text := range []string{"", "a:b", "#x\r\n\na:b:c\n", "hushhush", ":hushhush", "a:\n", "\xef\xbb\xbfa:b", "a:hushhush\nhushhush"} {
		f.Add([]byte(text))
	}
	file := filepath.Join(f.TempDir(), "users")
	f.Fuzz(func(t *testing.T, text []byte) {
		check.OK(t, "WriteFile", os.WriteFile(file, text, 0o600))
		users, err := readUsers(file)
		check.That(t, (err == nil) == (len(users) > 0), "readUsers(%q) = %q, %v", text, users, err)
		check.That(t, err == nil || !strings.Contains(err.Error(), "hushhush"), "readUsers(%q) = %v", text, err)
		for user, password := range users {
			check.That(t, user != "" && password != "" && !strings.ContainsAny(user, ":\n") && !strings.Contains(password, "\n"), "readUsers(%q) has %q: %q", text, user, password)
		}
	})
}
