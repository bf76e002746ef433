#!/bin/bash
# Rehearses a release: packs the modules as they are here into a module mirror in a temporary directory. Then it does, in an empty directory,
# what a user does after a release: installs the commands, gets each module, and builds a program with all of its packages.
# What the modules require of others comes from the module cache, or from where GOPROXY says.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$(pwd)
scripts/version.sh check
version=$(scripts/version.sh)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

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
