#!/bin/bash
# Runs go test with these arguments (flags as -name=value). A test that fails beside sixteen others
# is run again by itself, and has to pass three times then; it is told as FLAKY.
#
# The tests suspend processes, step clocks and kill servers, in real time. On two cores one of many
# hundreds may come too late for what it sets up. No failure is forgiven that tells of a broken
# promise, a data race, a panic or a test that hangs, nor are more than two.
set -uo pipefail
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"${GO:-go}" test "$@" 2>&1 | tee "$log" && exit 0

tests=$(sed -n 's/^--- FAIL: \([A-Za-z0-9_]*\).*/\1/p' "$log" | sort -u)
packages=$(sed -nE 's/^FAIL[[:space:]]+([^[:space:]]+)[[:space:]]+[0-9.]+s$/\1/p' "$log" | sort -u)
flags=$(printf '%s\n' "$@" | grep '^-')
grave='DATA RACE|panic:|fatal error:|\[(build|setup) failed\]|overlap|at once|both hold|two hold|stale|out of order|not larger|linearizable|BAD'
if [ -z "$tests" ] || [ -z "$packages" ] || [ "$(wc -l <<<"$tests")" -gt 2 ] || grep -qE "$grave" "$log"; then exit 1; fi
names=$(paste -sd'|' <<<"$tests")
# shellcheck disable=SC2086 # several words each
if ! "${GO:-go}" test $flags -count=3 -run "^($names)\$" $packages; then exit 1; fi
echo "FLAKY: $names: failed beside other tests, and passed three times alone"
