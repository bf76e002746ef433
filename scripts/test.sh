#!/bin/bash
# The quick tests: each component's own, a minute of simulation, and the core on real servers
# (tests/promises). What takes long to compile or to run is in `make test-all`.
# REDLATCH_FAILS=FILE: append the names of tests that fail. FOR=20s: less of the simulation. NICE=0: beside
# busy programs, which would keep it from the processors.
set -euo pipefail
cd "$(dirname "$0")/.."
start=$SECONDS
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
scripts/need-redis.sh

# Compiling and linking without tables for debuggers and, in redlatch, without inlining, and no vet, which
# is a part of make lint: each is a good part of what a run takes. The simulation is hardly slower.
compile=(-gcflags=all=-dwarf=false '-gcflags=github.com/redlatch/redlatch/...=-dwarf=false -l')
flags=(-vet=off "${compile[@]}" '-ldflags=-s -w')
# Compilers and tests collect garbage less often.
export GOGC=400
# Programs without C start in two thirds of the time, and the tests of the command start hundreds.
export CGO_ENABLED=0
(cd tools && GOWORK=off go build -o "$work/tally" ./tally)
# What is compiled for a few tests alone is in make test-all: the whole command (cmd/redlatch and its
# manual), and the modules that need go-redis, OpenTelemetry or golang.org/x/tools. These are a
# quarter of what there is to compile.
packages=$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' \
	./cmd/redlatch/internal/... ./tests/promises ./redlatchprom/... ./redlatchweb/... ./redlatchrueidis/... ./... ./redlatchtest/... |
	grep -v '/internal/manual$')
# All is compiled before the first test runs: beside compilers, everything takes ten times as long.
# Of what does not compile, go test tells.
GOGC=off go list "${compile[@]}" -test -export -f '{{""}}' $packages >/dev/null 2>&1 || true
packages=$(grep -v '/internal/simulation$' <<<"$packages")
# The simulation uses a minute of processors: what the tests below leave of two while they wait, and
# both when they have ended.
(
	(cd redlatchtest && go test -c "${flags[@]}" -o "$work/simulation" ./internal/simulation)
	cd "$work"
	exec nice -n "${NICE:-19}" ./simulation -test.run='^TestSimulate$' -test.v -processes=2 -seeds=100000 -cpu="${FOR:-1m}"
) >"$work/simulated" 2>&1 &
simulation=$!

status=0
# Tests wait more than they compute, so there are several at once. With nine, all take longer, and tests
# find requests unanswered.
go test -short -p 4 -parallel 8 "${flags[@]}" -timeout 10m -json $packages |
	"$work/tally" -packages "$(wc -w <<<"$packages")" -note 'components and promises' ${REDLATCH_FAILS:+-fails "$REDLATCH_FAILS"} || status=1
wait $simulation || { status=1; [ -z "${REDLATCH_FAILS:-}" ] || echo simulation >>"$REDLATCH_FAILS"; }
if [ $status = 0 ]; then grep 'worlds from seed' "$work/simulated" | sed 's/^ *[^ ]*: /simulation: /'; else cat "$work/simulated"; fi
echo "make test: $([ $status = 0 ] && echo all passed || echo FAILED), in $(((SECONDS - start) / 60)) min $(((SECONDS - start) % 60)) s; make test-all runs the rest"
exit $status
