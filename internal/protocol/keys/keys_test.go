package keys_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

func TestSpelling(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"invoice:42": {"p:invoice:42", "{p:invoice:42}:fence", "{p:invoice:42}:queue", "{p:invoice:42}:clients"},
		"{order}:7":  {"p:{order}:7", "p:{order}:7:fence", "p:{order}:7:queue", "p:{order}:7:clients"},
		"a:queue":    {"p:a:queue", "{p:a:queue}:fence", "{p:a:queue}:queue", "{p:a:queue}:clients"},
	} {
		if got, err := keys.Of("p:", name); err != nil || !slices.Equal(got.List(), want) {
			t.Errorf("Of(%q) = %v, %v, want %v", name, got.List(), err, want)
		}
	}
}

func TestRefusedNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"":                       "empty",
		strings.Repeat("x", 511): "512",
		"a\x00b":                 "control character",
		"a\nb":                   "control character",
		"a\u0085b":               "control character",
		"a\xffb":                 "UTF-8",
		"a{b":                    "brace",
		"a}b":                    "brace",
		"a{}b":                   "brace",
		"a{b}:queue":             "reserved",
		"{a}:fence":              "reserved",
		"x{a}:clients":           "reserved",
		"{a}:mark":               "reserved",
	} {
		if _, err := keys.Of("p:", name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Of(%q) = %v, want an error with %q", name, err, want)
		}
	}
}

func TestTagAloneIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := keys.Of("", "{a}"); err == nil || !strings.Contains(err.Error(), "hash tag") {
		t.Errorf("Of({a}) = %v, want a refusal: its siblings are those of a", err)
	}
}

// FuzzOf checks, for whatever name is accepted, that all keys fall into one slot, that no two are
// equal, and that none of them is the key of another accepted name.
func FuzzOf(f *testing.F) {
	for _, seed := range []string{"a", "{a}", "a{b}c", "{a}{b}", "a}{b}", "{{a}}", "{a}:fence", "a:queue", "{a", "}"} {
		f.Add("p:", seed)
		f.Add("", seed)
	}
	owner := map[string]string{} // of every key seen in this run: the state key of its latch
	var mu sync.Mutex
	f.Fuzz(func(t *testing.T, prefix, name string) {
		set, err := keys.Of(prefix, name)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, key := range set.List() {
			check.That(t, tag(key) == tag(set.State()), "%q is in another slot than %q", key, set.State())
			check.That(t, !seen[key], "%q stands for two keys", key)
			seen[key] = true
			mu.Lock()
			if other, ok := owner[key]; ok && other != set.State() {
				t.Errorf("%q belongs to both %q and %q", key, other, set.State())
			}
			owner[key] = set.State()
			mu.Unlock()
		}
		for _, sibling := range set.List()[1:] {
			if _, err := keys.Of("", sibling); err == nil {
				t.Errorf("the sibling %q is accepted as a name", sibling)
			}
		}
		if state, ok := keys.StateOf(set.Queue(), keys.QueueSuffix); !ok || state != set.State() {
			t.Errorf("StateOf(%q) = %q, %v, want %q", set.Queue(), state, ok, set.State())
		}
	})
}

// tag is what Redis hashes of a key, written after the Cluster specification.
func tag(key string) string {
	if _, after, ok := strings.Cut(key, "{"); ok {
		if inner, _, ok := strings.Cut(after, "}"); ok && inner != "" {
			return inner
		}
	}
	return key
}

// TestWithFence: only the fence is another key, in the same slot.
func TestWithFence(t *testing.T) {
	t.Parallel()
	for name, fence := range map[string]string{"a": "tokens:{p:a}", "{t}:a": "tokens:{t}:x"} {
		prefix := "p:"
		if name[0] == '{' {
			prefix = ""
		}
		before := check.Value(keys.Of(prefix, name)).OK(t)
		after, err := before.WithFence(fence)
		want := before.List()
		want[1] = fence
		check.That(t, err == nil && slices.Equal(after.List(), want), "with the fence %q the keys are %q, %v, want %q", fence, after.List(), err, want)
		for _, bad := range []string{"tokens", "tokens:{other}", before.State(), before.Queue()} {
			if set, err := before.WithFence(bad); err == nil {
				t.Errorf("%q is a fence of %q", bad, set.State())
			}
		}
	}
}
