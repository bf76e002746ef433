#!/bin/bash
# Compiles the command, static, for every target of .goreleaser.yaml, and prints the size of each. With an argument such as linux/arm64, for
# that one alone, into dist/.
set -euo pipefail
cd "$(dirname "$0")/.."
list() { sed -nE "s/^ *$1: \[(.*)\].*/\1/p" .goreleaser.yaml | tr -d ',' | tail -1; }
cli=github.com/redlatch/redlatch/cmd/redlatch/internal/cli
flags=(-trimpath -ldflags "-s -w -X $cli.releaseVersion=${VERSION:-} -X $cli.releaseCommit=${COMMIT:-}")
status=0
for os in $(list goos); do
	for arch in $(list goarch); do
		[ -z "${1-}" ] || [ "$1" = "$os/$arch" ] || continue
		program=dist/redlatch_${os}_$arch
		if CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build "${flags[@]}" -o "$program" ./cmd/redlatch; then
			echo "$os/$arch $(($(wc -c <"$program") / 1000)) kB"
		else
			echo "$os/$arch does not compile" >&2
			status=1
		fi
	done
done
exit $status
