#!/bin/sh
# Runs the tests of one file below tests/: one.sh relay, or one.sh process/relay where several folders have a file of that name.
set -eu
cd "$(dirname "$0")/../tests"
files=$(ls -- */"$1"_test.go "$1"_test.go 2>/dev/null || true)
[ -n "$files" ] || { echo "there is no tests/*/$1_test.go; the doc.go of each folder of tests lists its files" >&2; exit 1; }
for file in $files; do
	tests=$(sed -n 's/^func \(Test[A-Za-z0-9]*\)(.*/\1/p' "$file" | paste -sd'|' -)
	"${GO:-go}" test -race -run "^($tests)\$" "./$(dirname "$file")"
done
