#!/bin/sh
# Tidies the go.mod of every module. `go mod tidy` does not know go.work, so the modules of this repository are replaced by what is beside
# them while it runs. It also completes go.work.sum, which any go command that looks at all modules (as go doc does) would do later, and leave a
# checkout changed. With --check, it does so in a copy, since other commands may use the checkout at that time, and fails if anything would change.
set -eu
cd "$(dirname "$0")/.."
if [ "${1:-}" = --check ]; then
	copy=$(mktemp -d)
	trap 'rm -rf "$copy"' EXIT
	tar -c --exclude='./.[a-z]*' --exclude=./bin --exclude=./dist . | tar -x -C "$copy"
	"$copy/scripts/tidy.sh"
	status=0
	for file in go.work.sum $(cd "$copy" && find . -name go.mod); do
		cmp -s "$file" "$copy/$file" || { echo "$file is not tidy: run make tidy" >&2; status=1; }
	done
	exit $status
fi

root=$(pwd)
version=$(scripts/version.sh)
modules=$(sed -n '/^use (/,/^)/s/^\t//p' go.work)
for m in $modules; do
	(
		cd "$m"
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
	)
done
go list -m all >/dev/null
