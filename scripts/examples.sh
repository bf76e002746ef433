#!/bin/sh
# Builds and runs every program under examples/ on the embedded server; each ends by itself within a minute.
set -eu
cd "$(dirname "$0")/../examples"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/" ./...
for program in "$bin"/*; do
	echo "== $(basename "$program")"
	timeout 60 "$program"
done
