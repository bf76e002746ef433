#!/bin/bash
# All tests of all modules, with the race detector, on real redis-server processes: but for the
# module that is named first, which is tested without. The others follow.
set -euo pipefail
cd "$(dirname "$0")/.."
unraced=$1
shift
scripts/need-redis.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd tools && GOWORK=off go build -o "$work/tally" ./tally)
start=$SECONDS n=0 failed=()
for module in "$@"; do
	n=$((n + 1))
	echo "== $n of $#: $module, after $(((SECONDS - start) / 60)) min"
	race=-race
	[ "$module" != "$unraced" ] || race=
	(cd "$module" && go list $race -test -export -f '{{""}}' ./... >/dev/null 2>&1) || true # tests beside compilers are late with all
	(cd "$module" && go test $race -vet=off -parallel 8 -timeout 20m -json ./... |
		"$work/tally" -note "$module" -packages "$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | wc -w)") || failed+=("$module")
done
[ ${#failed[@]} = 0 ] || { echo "make test-all: FAILED in ${failed[*]}, after $(((SECONDS - start) / 60)) min"; exit 1; }
echo "make test-all: all $# modules passed, in $(((SECONDS - start) / 60)) min $(((SECONDS - start) % 60)) s"
