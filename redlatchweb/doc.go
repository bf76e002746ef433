// Package redlatchweb is the dashboard of redlatch: an [http.Handler] that shows what is held and
// waited for, live.
//
//	dashboard, err := redlatchweb.New(client, redlatchweb.Options{})
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer dashboard.Close()
//	http.Handle("/locks/", http.StripPrefix("/locks", dashboard))
//
// It works under any prefix, since all of its links are relative. `redlatch web` serves it without
// a program around it.
//
// # What it costs Redis
//
// One poller looks for all viewers, and does not look while there is none. A look is what
// redlatch.Client.List does. The poller keeps the time that Redis spends on looks below a tenth, so
// the pictures of 100,000 names are further apart than those of a hundred; each page tells the age
// of what it shows.
//
// # Security
//
// The dashboard shows names, hosts, labels, values and owners to each viewer it has: mount it
// behind the program's own authentication, or behind [BasicAuth]. It changes nothing unless
// Options.AllowRelease is set. Requests from other sites are refused, and so are unknown host names
// on loopback connections (Options.Hosts). Middleware that wraps the server's http.ResponseWriter
// needs a method Unwrap, or pages are not live. Pages have a content security policy that allows no
// inline code.
package redlatchweb

// Where it is decided what a page shows as bad: Troubled and Overdue are in internal/fleet/picture.go,
// believed dead and deadlocks in internal/engine/survey (picture.go, deadlocks.go), and long waits in
// text.go (longWait, 10 s). In an outage, the last picture stays (fail in internal/fleet/sweep.go), with
// its age (Picture.Status in picture.go) and a notice (trouble in templates/layout.html).
