// Package browser tests the dashboard in Chromium: that each of its states can be read and used,
// with axe-core and without, and that no page breaks the content security policy. It is a module of
// its own, so that what it needs stays out of users' go.mod. `make web` installs Chromium and
// axe-core and runs it.
package browser
