#!/bin/bash
# Runs `make test` so many times beside two busy loops, and prints which tests failed how often. A
# test that fails here depends on the pace of the machine, and is to be mended.
set -euo pipefail
cd "$(dirname "$0")/.."
times=$1
fails=$(mktemp)
loops=()
for _ in 1 2; do
	(while :; do :; done) &
	loops+=($!)
done
trap 'kill "${loops[@]}" 2>/dev/null || true; rm -f "$fails"' EXIT
bad=0
for n in $(seq "$times"); do
	log=$(mktemp)
	if REDLATCH_FAILS=$fails GOFLAGS="${GOFLAGS:-} -count=1" FOR=20s NICE=0 scripts/test.sh >"$log" 2>&1; then
		echo "$n of $times: passed, $(tail -n 1 "$log")"
	else
		bad=$((bad + 1))
		echo "$n of $times: FAILED, see $log"
	fi
done
echo "make steady: $bad of $times failed"
sort "$fails" | uniq -c | sort -rn
[ $bad = 0 ]
