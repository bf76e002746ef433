#!/bin/bash
# Rehearses a release, but for what needs the repository's host: the signature of the provenance, the bill of materials, and the upload.
#
# First it tags a clone, module by module in the order of a release, and checks the tags. It builds the packages for this machine, with the
# program, man pages and completions, sums them up, and looks into them; and the image, where docker runs. Then it packs the modules as they
# are here into a module mirror in a temporary directory, and does in an empty directory what a user does after a release: installs the
# commands, gets each module, and builds a program with all of its packages.
# What the modules require of others comes from the module cache, or from where GOPROXY says.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$(pwd)
scripts/version.sh check
version=$(scripts/version.sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if git rev-parse --git-dir >/dev/null 2>&1; then
	echo "== tags, in a clone"
	git clone -q . "$work/clone"
	(
		cd "$work/clone"
		sed -i "s/^## Unreleased/## ${version#v} - $(date +%F)/" CHANGELOG.md
		git -c user.name=release -c user.email=release@localhost commit -qam release
		for tag in $(scripts/version.sh tags); do git tag "$tag"; done
		scripts/version.sh check-tags
		git tag --points-at HEAD --sort=creatordate | tr '\n' ' ' && echo
	)
fi

echo "== packages"
rm -rf dist
scripts/packages.sh
arch=$(go env GOARCH)
(cd dist && sha256sum -- * >checksums.txt && sha256sum --quiet -c checksums.txt && cat checksums.txt)
if command -v dpkg-deb >/dev/null; then
	for file in usr/bin/redlatch usr/share/man/man1/redlatch-run.1.gz usr/share/bash-completion/completions/redlatch usr/share/doc/redlatch/copyright; do
		dpkg-deb --fsys-tarfile dist/*.deb | tar -t "./$file" >/dev/null || { echo "the Debian package has no $file" >&2 && exit 1; }
	done
fi
# What a bill of materials is made from is in the program itself.
modules=$(go version -m "dist/redlatch_linux_$arch" | grep -c '	dep	')
echo "the program names $modules modules that it is made of"
(cd cmd/redlatch && go test ./internal/manual)
if docker info >/dev/null 2>&1; then
	echo "== image"
	docker build -q --build-arg VERSION="$version" -t redlatch-rehearsal .
	docker run --rm redlatch-rehearsal version
	docker image rm redlatch-rehearsal >/dev/null
else
	echo "== image: docker does not run here; the Dockerfile compiles what is in the packages"
fi

# A copy of what git has or would take, since a module's archive is to hold nothing else.
mkdir "$work/tree"
if git rev-parse --git-dir >/dev/null 2>&1; then
	git ls-files -coz --exclude-standard | while IFS= read -r -d '' file; do [ -e "$file" ] && printf '%s\0' "$file"; done |
		tar -c --null -T - | tar -x -C "$work/tree"
else
	cp -R . "$work/tree"
fi
(cd tools && GOWORK=off go build -o "$work/modmirror" ./modmirror)
echo "== $version"
(cd "$work/tree" && "$work/modmirror" -out "$work/mirror" -version "$version" $("$root/scripts/version.sh" modules))

# The hashes of others were checked against go.sum when they came into the cache.
export GOPROXY="file://$work/mirror,file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)"
export GOMODCACHE=$work/modcache GOBIN=$work/bin GOWORK=off GOSUMDB=off GOFLAGS="-trimpath -modcacherw -buildvcs=false"

# packages MODULE_DIR: its packages that others may import, and "main" or the name before each.
packages() {
	(cd "$root/$1" && GOWORK='' GOMODCACHE='' GOFLAGS=-buildvcs=false go list -f '{{.Name}} {{.ImportPath}}' ./... | grep -v /internal)
}

for m in $(scripts/version.sh modules); do
	path=$(sed -n 's/^module //p' "$m/go.mod")
	found=$(packages "$m")
	for command in $(sed -n 's/^main //p' <<<"$found"); do
		echo "== go install $command@$version"
		mkdir -p "$work/empty" && cd "$work/empty"
		go install "$command@$version"
		cd "$root"
	done
	libraries=$(sed '/^main /d; s/^[^ ]* //' <<<"$found")
	[ -n "$libraries" ] || continue
	echo "== go get $path@$version"
	mkdir -p "$work/user/$m" && cd "$work/user/$m"
	go mod init example.com/user 2>/dev/null
	{
		echo 'package main'
		for package in $libraries; do echo "import _ \"$package\""; done
		echo 'func main() {}'
	} >main.go
	go get "$path@$version" 2>&1 | grep -v -e '^go: downloading' -e '^go: added' || true
	go mod tidy 2>&1 | grep -v -e '^go: downloading' -e '^go: finding' -e '^go: found' || true
	go build -o program .
	./program
	go mod verify >/dev/null
	cd "$root"
done

said=$("$GOBIN/redlatch" version)
echo "== $said"
case $said in *" $version "*) ;; *) echo "redlatch version does not say $version" >&2 && exit 1 ;; esac
