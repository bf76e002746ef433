#!/bin/sh
# Runs each fuzz target of the root module for a while: FUZZTIME, 1m by default.
set -eu
cd "$(dirname "$0")/.."
for dir in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do
	for target in $(grep -rho --include='*_test.go' '^func Fuzz[A-Za-z]*' "$dir" | sed 's/func //' | sort -u); do
		echo "== $dir $target"
		(cd "$dir" && go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-1m}" .)
	done
done
