#!/bin/sh
# Checks that the root module's own packages need nothing but the standard library and rueidis, so that a user's program carries no more.
set -eu
cd "$(dirname "$0")/.."
extra=$(GOWORK=off go list -deps -f '{{if not .Standard}}{{.ImportPath}}{{end}}' . ./conn ./redlatchrueidis ./fence/... ./internal/... |
	grep -v -e '^github.com/redlatch/redlatch' -e '^github.com/redis/rueidis' -e '^golang.org/x/sys/' || true)
if [ -n "$extra" ]; then
	echo "the root module depends on more than rueidis and the standard library:" >&2
	echo "$extra" >&2
	exit 1
fi
