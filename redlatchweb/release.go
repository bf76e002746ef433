package redlatchweb

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/fleet"
)

// serveRelease takes a lock by force, if the viewer may and has typed its name.
func (h *Handler) serveRelease(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 8<<10)
	if err := r.ParseForm(); err != nil {
		h.refuse(w, http.StatusBadRequest, "This form cannot be read", err.Error())
		return
	}
	name, owner := r.PostForm.Get("name"), r.PostForm.Get("owner")
	log, why := h.options.Log.With("name", name, "owner", owner, "remote", r.RemoteAddr), "by hand, in the dashboard"
	if user, ok := r.Context().Value(userKey{}).(string); ok {
		log, why = log.With("user", user), fmt.Sprintf("by %s, in the dashboard", fleet.OneLine(user))
	}
	switch {
	case h.release == nil:
		log.Warn("redlatchweb: a force release was refused: the dashboard is read-only")
		h.refuse(w, http.StatusForbidden, "This dashboard changes nothing",
			"It was started without Options.AllowRelease, or redlatch web without --allow-release.")
		return
	case name == "" || owner == "":
		h.refuse(w, http.StatusBadRequest, "Nothing was released", "The form says neither which lock nor which holder.")
		return
	case !typed(r.PostForm.Get("typed"), name):
		h.refuse(w, http.StatusConflict, "Nothing was released",
			"What you typed is not the name of the lock. Go back, and type "+fleet.Visible(name)+".")
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
	defer cancel()
	err := h.stillThere(ctx, name, owner, r.PostForm.Get("window"))
	if err == nil {
		_, err = h.release(ctx, name, redlatch.ForceOptions{Owner: owner, Reason: why})
	}
	switch {
	case errors.Is(err, redlatch.ErrNotHeld):
		h.refuse(w, http.StatusConflict, "Nothing was released", "That holder no longer holds the lock.")
		return
	case errors.Is(err, redlatch.ErrInvalid):
		h.refuse(w, http.StatusBadRequest, "Nothing was released", fleet.ErrorText(err))
		return
	case err != nil:
		log.Error("redlatchweb: a force release failed", "err", err)
		h.refuse(w, http.StatusBadGateway, "It is not known whether the lock was released",
			fmt.Sprintf("Look at its page before you try again. %v", err))
		return
	}
	log.Warn("redlatchweb: a lock was taken by force")
	w.Header().Set("Location", "./lock?"+url.Values{"name": {name}, "released": {"1"}}.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

// stillThere returns redlatch.ErrNotHeld if the window of a job that a viewer saw is over. All windows
// have the same owner, so the release would open that of a later run.
func (h *Handler) stillThere(ctx context.Context, name, owner, window string) error {
	if window == "" {
		return nil
	}
	info, err := h.inspect(ctx, name)
	if err == nil && !slices.ContainsFunc(info.Holders, func(h redlatch.Holder) bool { return h.Owner == owner && windowOf(h) == window }) {
		err = redlatch.ErrNotHeld
	}
	return err
}

// typed reports whether a viewer typed a name, as it is or as the page shows it: a browser shows a
// run of blanks as one, and none at an end.
func typed(text, name string) bool {
	return text == name || text == fleet.Visible(name) || slices.Equal(strings.Fields(text), strings.Fields(fleet.Visible(name)))
}
