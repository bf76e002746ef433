package talk

import (
	"strings"
	"testing"

	"github.com/redlatch/redlatch/internal/protocol/address"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// FuzzRedacted prints URLs that lead to Redis, with hush in the password: nothing of it is left.
func FuzzRedacted(f *testing.F) {
	for _, url := range []string{
		"redis://:hush@host:1/0", "redis+sentinel://u:hu'hush@a,b/m?sentinel_password=x", "rediss+sentinel://host/m?sentinel_password=hush&ca=x",
		"unix://:%22hush@/run/s", "redis+cluster://u:a:hush@[::1]:7,b", "redis://u:`hush@h", "redis+sentinel://h/m?sentinel%5fpassword=hush",
		"redis+sentinel://h/m?dial_timeout=1s&sentinel_password=a'hush", "redis+sentinel://h/m?sentinel_password=a\"b hush", "redis://u%20:hush@h", "redis://user:password@hush@h", "redis+sentinel://:hush@0/@",
	} {
		f.Add(url)
	}
	f.Fuzz(func(t *testing.T, url string) {
		o, _, err := address.Parse(url)
		if err != nil || !strings.Contains(o.Password+o.Sentinel.Password, "hush") || strings.Count(url, "hush") != 1 {
			return
		}
		check.That(t, Secret(url), "Secret(%q) = false", url)
		for _, text := range []string{Redacted(url), Redacted("dial " + url + ": no"), Bare(url)} {
			check.That(t, !strings.Contains(text, "hush"), "%q is printed as %q", url, text)
		}
		bare, _, err := address.Parse(Bare(url))
		check.That(t, err == nil && bare.Password+bare.Sentinel.Password == "", "Bare(%q) = %q: %v", url, Bare(url), err)
	})
}
