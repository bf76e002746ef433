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
export GOGC=400 # compilers and tests collect garbage less often
(cd tools && GOWORK=off go build -o "$work/tally" ./tally)
start=$SECONDS status=0

# tested runs the tests of packages. All is compiled before the first test runs: beside compilers,
# tests are late with all. Tests wait half of the time, so four packages are tested at once.
tested() { # NOTE PACKAGES [FLAG...]
	local note=$1 packages=$2
	shift 2
	echo "== $note: compiling, after $(((SECONDS - start) / 60)) min"
	go list "$@" -test -export -f '{{""}}' $packages >/dev/null 2>&1 || true # of what does not compile, go test tells
	echo "== $note: testing, after $(((SECONDS - start) / 60)) min"
	go test "$@" -vet=off -p 4 -parallel 8 -timeout 10m -json $packages |
		"$work/tally" -note "$note" -packages "$(wc -w <<<"$packages")" || status=1
}

list() { # MODULE...
	go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' "${@/%//...}"
}

# Those of ./tests take longest, so they come first.
rest=()
for module in "$@"; do
	case $module in "$unraced" | ./tests) ;; *) rest+=("$module") ;; esac
done
tested "$unraced" "$(list "$unraced")"
tested "all other modules" "$(list ./tests "${rest[@]}")" -race
echo "make test-all: $([ $status = 0 ] && echo "all $# modules passed" || echo FAILED), in $(((SECONDS - start) / 60)) min $(((SECONDS - start) % 60)) s"
exit $status
