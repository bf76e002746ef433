#!/bin/bash
# Builds the Debian and RPM packages of the command for this machine into dist/, as .goreleaser.yaml describes them, with nfpm alone.
set -euo pipefail
cd "$(dirname "$0")/.."
nfpm=bin/nfpm
[ -x $nfpm ] || GOBIN=$PWD/bin go install github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
arch=$(go env GOARCH)
VERSION=$(scripts/version.sh)
COMMIT=$(git rev-parse HEAD 2>/dev/null || true)
export VERSION COMMIT
rm -rf bin/manual
go run ./cmd/redlatch/internal/manual bin/manual
scripts/cross.sh "linux/$arch"
{
	echo "arch: $arch"
	echo "version: $VERSION"
	# goreleaser's list of packages has one, which has nfpm's own fields; it adds the program itself.
	sed -n '/^nfpms:/,/^[a-z]/p' .goreleaser.yaml | sed -e '1d;$d' -e 's/^  - package_name:/    name:/' -e '/^    formats:/d' -e 's/^    //' \
		-e "s|^contents:|&\n  - src: dist/redlatch_linux_$arch\n    dst: /usr/bin/redlatch\n    file_info: { mode: 0755 }|"
} >bin/nfpm.yaml
for format in deb rpm; do
	$nfpm package --config bin/nfpm.yaml --packager $format --target dist/
done

# The time to start, as the median of 21 runs of the smallest command.
program=dist/redlatch_linux_$arch
for _ in {1..21}; do
	from=${EPOCHREALTIME/./}
	"$program" version >/dev/null
	echo $((${EPOCHREALTIME/./} - from))
done | sort -n | sed -n 's/$/ us to start and say its version/; 11p'
