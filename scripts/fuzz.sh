#!/bin/sh
# Runs each fuzz target for a while: FUZZTIME, 1m by default.
set -eu
cd "$(dirname "$0")/.."
for dir in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do
	for target in $(grep -ho '^func Fuzz[A-Za-z]*' "$dir"/*_test.go | sed 's/func //' | sort -u); do
		echo "== $dir $target"
		(cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-1m}" .)
	done
done
