package redlatchweb

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"
)

// policy allows what this handler serves itself, and nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard refuses what no viewer of this dashboard would send, and sets the headers that keep
// browsers strict.
func (h *Handler) guard(next http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	cross.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.options.Log.Warn("redlatchweb: a request of another site was refused", "origin", r.Header.Get("Origin"), "remote", r.RemoteAddr)
		h.refuse(w, http.StatusForbidden, "This request comes from another site",
			"Only pages of this dashboard may change something. Behind a proxy, have it pass the Host header on unchanged.")
	}))
	inner := cross.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		if !h.known(r) && r.URL.Path != "/healthz" { // which a probe asks by address, and which tells nothing
			h.options.Log.Warn("redlatchweb: a request for an unknown host was refused", "host", r.Host, "remote", r.RemoteAddr)
			h.refuse(w, http.StatusMisdirectedRequest, "This host name is not allowed",
				"The dashboard answers for the host names that it was given, so that no other site can read it through a browser. "+
					"Add the name to Options.Hosts, or to redlatch web with --host.")
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// known reports whether the Host header names this server. A site whose name an attacker resolves
// to this address sends its own name.
func (h *Handler) known(r *http.Request) bool {
	host := strings.ToLower(r.Host)
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if slices.Contains(h.options.Hosts, host) || slices.Contains(h.options.Hosts, "*") {
		return true
	}
	if !loopbackConn(r) {
		return len(h.options.Hosts) == 0
	}
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// loopbackConn reports whether the request came over a loopback connection, or over one whose
// address is not known.
func loopbackConn(r *http.Request) bool {
	addr, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// BasicAuth wraps a handler so that it answers only requests with a user and a password from users,
// a map from user to password. It refuses all requests if users is empty. Serve it over TLS: the
// password crosses the network in the clear.
func BasicAuth(users map[string]string, next http.Handler) http.Handler {
	type sum = [sha256.Size]byte
	known := make(map[sum]sum, len(users)) // comparing hashes takes the same time whatever is in them
	for user, password := range users {
		known[sha256.Sum256([]byte(user))] = sha256.Sum256([]byte(password))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, ok := r.BasicAuth()
		want, exists := known[sha256.Sum256([]byte(user))]
		got := sha256.Sum256([]byte(password))
		if !ok || !exists || subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="redlatch", charset="UTF-8"`)
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "user and password required", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

// userKey is that of the user in the context of a request that [BasicAuth] let through.
type userKey struct{}
