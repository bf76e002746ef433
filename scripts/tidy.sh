#!/bin/sh
# Tidies the go.mod of every module. `go mod tidy` does not know go.work, so the modules of this repository are replaced by what is beside
# them while it runs. It also completes go.work.sum, which any go command that looks at all modules (as go doc does) would do later, and leave a
# checkout changed. With --check, fails if anything would change.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
version=$(scripts/version.sh)
modules=$(sed -n '/^use (/,/^)/s/^\t//p' go.work)
for m in $modules; do
	(
		cd "$m"
		cp go.mod go.mod.before
		[ -f go.sum ] && cp go.sum go.sum.before
		for other in $modules; do
			path=$(sed -n 's/^module //p' "$root/$other/go.mod")
			[ "$other" = "$m" ] || go mod edit -replace "$path=$root/$other"
		done
		GOWORK=off go mod tidy
		for other in $modules; do
			go mod edit -dropreplace "$(sed -n 's/^module //p' "$root/$other/go.mod")"
		done
		sed -i.tmp "s/ v0.0.0-00010101000000-000000000000/ $version/" go.mod && rm go.mod.tmp # what tidy makes of a module that it was to add
		go mod edit -fmt
		status=0
		if [ "${1:-}" = --check ]; then
			cmp -s go.mod go.mod.before || { echo "$m/go.mod is not tidy: run make tidy" >&2; status=1; }
			mv go.mod.before go.mod
			[ -f go.sum.before ] && mv go.sum.before go.sum
		fi
		rm -f go.mod.before go.sum.before
		exit $status
	)
done

cp go.work.sum go.work.sum.before
go list -m all >/dev/null
status=0
if [ "${1:-}" = --check ]; then
	cmp -s go.work.sum go.work.sum.before || { echo "go.work.sum is not complete: run make tidy" >&2; status=1; }
	mv go.work.sum.before go.work.sum
fi
rm -f go.work.sum.before
exit $status
