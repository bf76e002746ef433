#!/bin/bash
# Checks the model of a quorum's tokens: that it holds within its bounds, and that each rule that is left out makes it fail.
set -euo pipefail
cd "$(dirname "$0")/../spec"
if ! command -v spin >/dev/null || ! command -v gcc >/dev/null; then
	echo "not checked: the model needs spin and gcc (apt-get install spin gcc)"
	exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp quorum.pml "$work"
cd "$work"

# check: "holds" or "fails", for these bounds and rules.
check() {
	rm -f ./*.trail
	spin -a "$@" quorum.pml >spin.log 2>&1 || { cat spin.log; exit 1; }
	gcc -O2 -DSAFETY -DCOLLAPSE -DMEMLIM=${MEMLIM:-4000} -w -o pan pan.c
	./pan -m200000 -n >pan.log 2>&1 || { cat pan.log; exit 1; }
	grep -q 'max search depth too small\|out of memory' pan.log && { cat pan.log; exit 1; }
	grep -q 'errors: 0' pan.log && echo holds || echo fails
}

status=0
expect() {
	want=$1
	shift
	got=$(check "$@")
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log)
	echo "$got ($states states): ${*#-D}"
	[ "$got" = "$want" ] || { echo "  want: $want"; status=1; }
}

for rule in NAIVE NOOWNER ANYSKIP NOREST NOFLOOR EARLYFLOOR ONEOTHER; do
	expect fails -DATTEMPTS=${ATTEMPTS:-2} -DEXPIRIES=1 -D$rule
done
expect holds -DATTEMPTS=${ATTEMPTS:-2} -DEXPIRIES=${EXPIRIES:-1} -DLOSSES=${LOSSES:-1}
exit $status
