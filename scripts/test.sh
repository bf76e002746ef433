#!/bin/bash
# The quick tests: each component's own, a minute of simulation, and the core on real servers
# (tests/promises). What takes long to compile or to run is in `make test-all`.
# REDLATCH_FAILS=FILE: append the names of tests that fail.
set -euo pipefail
cd "$(dirname "$0")/.."
start=$SECONDS
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
scripts/need-redis.sh
(cd tools && GOWORK=off go build -o "$work/tally" ./tally)

# Linking without tables for debuggers, and no vet, which is a part of make lint: both are a good
# part of what a cold run takes. Most tests wait more than they compute, so many fit on few cores.
flags=(-vet=off '-ldflags=-s -w')
(cd redlatchtest && go test -c "${flags[@]}" -o "$work/simulation" ./internal/simulation)
# A minute of simulation: half of it on each of two processors.
(cd "$work" && exec ./simulation -test.run='^TestSimulate$' -test.v -processes=2 -seeds=100000 -for="${FOR:-30s}" >simulated 2>&1) &
simulation=$!

packages=$(go list ./... ./redlatchtest/... ./redlatchgoredis/... ./redlatchprom/... ./redlatchotel/... ./redlatchvet/... \
	./redlatchweb/... ./cmd/redlatch/... ./tests/promises | grep -v -e '/internal/simulation$')
status=0
go test -short -p 3 -parallel 8 "${flags[@]}" -timeout 10m -json $packages |
	"$work/tally" -packages "$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' $packages | wc -w)" \
		-note 'components and promises' ${REDLATCH_FAILS:+-fails "$REDLATCH_FAILS"} || status=1
wait $simulation || { status=1; [ -z "${REDLATCH_FAILS:-}" ] || echo simulation >>"$REDLATCH_FAILS"; }
if [ $status = 0 ]; then grep 'worlds from seed' "$work/simulated" | sed 's/^ *[^ ]*: /simulation: /'; else cat "$work/simulated"; fi
echo "make test: $([ $status = 0 ] && echo all passed || echo FAILED), in $(((SECONDS - start) / 60)) min $(((SECONDS - start) % 60)) s; make test-all runs the rest"
exit $status
