package fleet

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
)

// Visible is a text of others with everything that cannot be seen spelled out.
func Visible(s string) string {
	clean := true
	for _, r := range s {
		if !strconv.IsPrint(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// Span is a duration in its two largest units.
func Span(d time.Duration) string {
	d = max(0, d)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd %dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh %02dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm %02ds", d/time.Minute, d%time.Minute/time.Second)
	case d >= 10*time.Second:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

// Expiry is the time that is left of a lease.
func Expiry(d time.Duration) string {
	if d < 0 {
		return "never"
	}
	return Span(d)
}

// Count returns a number with its thousands apart.
func Count(v any) string {
	s := fmt.Sprint(v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// KindText is a kind as the documents call it.
func KindText(l *Lock) string {
	name := map[string]string{
		"mutex": "mutex", "reentrant": "reentrant mutex", "rwmutex": "read-write mutex", "semaphore": "semaphore",
		"slotpool": "slot pool", "election": "election", "job": "job",
		"countdown": "countdown",
	}[l.Kind]
	switch {
	case l.RedisType != "":
		return "no lock: a " + l.RedisType
	case l.Size > 0:
		return fmt.Sprintf("%s of %s", name, Count(l.Size))
	}
	return cmp.Or(name, l.Kind)
}

// ProcessText is what is known of a process, or else of its client.
func ProcessText(p redlatch.Process, client string) string {
	if p.Host == "" && p.Program == "" {
		if client == "" {
			return "unknown process"
		}
		return "unknown process " + Visible(client)
	}
	return Visible(p.Program) + " on " + Visible(p.Host)
}

// HolderText is what is known of a holder.
func HolderText(h redlatch.Holder) string {
	switch {
	case h.Resting && h.Owner == "window":
		return "a run that has ended"
	case h.Resting:
		return "no holder: kept free"
	case h.Foreign:
		return "foreign client " + Brief(h.Owner)
	}
	return ProcessText(h.Process, h.Client)
}

// Brief is the beginning of a long text.
func Brief(s string) string {
	s = Visible(s)
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}
