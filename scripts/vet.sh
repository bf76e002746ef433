#!/bin/bash
# Has vet, staticcheck and redlatchvet look at all modules: with the race detector, as make test-all
# compiles them, so that nothing is compiled once more; but for the module that is named first.
set -euo pipefail
cd "$(dirname "$0")/.."
unraced=$1
look() { # PACKAGES...
	go vet "$@"
	bin/staticcheck -checks all,-ST1000 "$@"
	go vet -vettool="$PWD/bin/redlatchvet" "$@"
}
raced=()
for module in "${@:2}"; do [ "$module" = "$unraced" ] || raced+=("$module/..."); done
look "$unraced/..."
GOFLAGS="${GOFLAGS:-} -race" look "${raced[@]}"
