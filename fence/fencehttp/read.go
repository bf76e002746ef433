package fencehttp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/redlatch/redlatch/fence"
)

// What is wrong with the headers of a request, for errors.Is.
var (
	// ErrMissing says that a request has no token.
	ErrMissing = errors.New("no fencing token")

	// ErrMalformed says that the headers of a request make no sense, or are for a name other than
	// the one that is protected.
	ErrMalformed = errors.New("malformed fencing token")
)

// Read returns the lock's name and the token that a request carries. It does not check the token.
// The error matches [ErrMissing] or [ErrMalformed].
func Read(r *http.Request) (name string, token int64, err error) {
	names, tokens := r.Header.Values(NameHeader), r.Header.Values(TokenHeader)
	if len(names) == 0 || len(tokens) == 0 {
		return "", 0, fmt.Errorf("redlatch: %w: send %s and %s", ErrMissing, NameHeader, TokenHeader)
	}
	if len(names) > 1 || len(tokens) > 1 {
		return "", 0, fmt.Errorf("redlatch: %w: %s and %s must be sent once", ErrMalformed, NameHeader, TokenHeader)
	}
	name, err = url.PathUnescape(names[0])
	if err != nil || name == "" {
		return "", 0, fmt.Errorf("redlatch: %w: %s is %q, want a name, escaped as in the path of a URL", ErrMalformed, NameHeader, names[0])
	}
	number, err := strconv.ParseUint(tokens[0], 10, 63)
	if err != nil {
		return "", 0, fmt.Errorf("redlatch: %w: %s is %q, want a decimal number", ErrMalformed, TokenHeader, tokens[0])
	}
	return name, int64(number), nil
}

// Refuse answers a request with the status that an error calls for, see the package's table, and
// the error's text. An error that matches [fence.ErrInvalid], as of a name that a guard cannot store,
// is a 400, and any other a 503; their texts are not sent. Call it before anything is written.
func Refuse(w http.ResponseWriter, err error) {
	var stale *fence.StaleError
	switch {
	case errors.As(err, &stale):
		w.Header().Set(NameHeader, url.PathEscape(stale.Name))
		w.Header().Set(TokenHeader, strconv.FormatInt(stale.Token, 10))
		w.Header().Set(CurrentHeader, strconv.FormatInt(stale.Current, 10))
		http.Error(w, stale.Error(), http.StatusConflict)
	case errors.Is(err, ErrMissing):
		http.Error(w, err.Error(), http.StatusPreconditionRequired)
	case errors.Is(err, ErrMalformed):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, fence.ErrInvalid):
		http.Error(w, "redlatch: the guard does not take such a name or fencing token", http.StatusBadRequest)
	default:
		http.Error(w, "redlatch: the fencing token could not be checked; try again", http.StatusServiceUnavailable)
	}
}
