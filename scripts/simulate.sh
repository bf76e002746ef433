#!/bin/bash
# Runs so many worlds of the simulation that have not been seen before; or one again, and prints where
# its story is. (The tests run the same worlds each time, so that they blame no change for another's.)
# simulate.sh SEEDS [SEED]
set -euo pipefail
cd "$(dirname "$0")/../redlatchtest"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go test -c -vet=off -o "$work/simulation" ./internal/simulation
cd "$work"
if [ -n "${2:-}" ]; then
	"$work/simulation" -test.run='^TestSimulate$' -test.v -seeds=1 -seed="$2" -story
else
	"$work/simulation" -test.run='^TestSimulate$' -test.v -seed=0 -seeds="$1"
fi
