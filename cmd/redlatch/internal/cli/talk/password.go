package talk

import (
	"regexp"
	"strings"
)

// secrets matches the passwords in a text: what is before the last @ of a URL, whatever its scheme,
// and the parameter for Sentinel's own password. Both may have quotes in them.
var secrets = regexp.MustCompile(`(\b[A-Za-z][\w+.-]*://)\S*(@)|(\bsentinel_password=)[^&\s]*`)

// Redacted returns text without passwords.
func Redacted(text string) string {
	return secrets.ReplaceAllStringFunc(text, func(part string) string {
		_, user, _ := strings.Cut(part, "://")
		if strings.EqualFold(strings.TrimPrefix(user, "["), "user:password@") { // a sample URL
			return part
		}
		return secrets.ReplaceAllString(part, "${1}${3}...${2}")
	})
}

// Secret reports whether a URL has a password.
func Secret(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	user, _, found := cutLast(rest, "@")
	return found && strings.Contains(user, ":") || strings.Contains(rest, "sentinel_password=")
}

// Bare returns a URL without user and password.
func Bare(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	_, hosts, _ := cutLast(rest[:end], "@")
	place, query, _ := strings.Cut(hosts+rest[end:], "?")
	var kept []string
	for parameter := range strings.SplitSeq(query, "&") {
		if parameter != "" && !strings.HasPrefix(parameter, "sentinel_") {
			kept = append(kept, parameter)
		}
	}
	if len(kept) > 0 {
		place += "?" + strings.Join(kept, "&")
	}
	return scheme + "://" + place
}

// cutLast cuts s at the last sep; without one, all of s is after it.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}
