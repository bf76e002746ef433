#!/bin/bash
# Compares the Go API of every package that others may import with that of the last release, prints what changed, and fails if the step to
# the next version is too small: before v1.0.0 an incompatible change takes a new minor version, after it a new major one.
# The last release is the newest tag of the root module before the version that scripts/version.sh prints; it is compared at its own commit.
set -euo pipefail
cd "$(dirname "$0")/.."
next=$(scripts/version.sh)
last=$(git tag --list 'v[0-9]*' --sort=-v:refname | grep -v -e - -e "^$next\$" | head -1 || true)
if [ -z "$last" ]; then
	echo "nothing to compare with: there is no release before $next"
	exit 0
fi
apidiff=$PWD/bin/apidiff
work=$(mktemp -d)
trap 'git worktree remove --force "$work/last" 2>/dev/null || true; rm -rf "$work"' EXIT
git worktree add -q --detach "$work/last" "$last"

# packages: directory of the module and path of each package, of the checkout in the working directory.
packages() {
	for m in $(scripts/version.sh modules); do
		(cd "$m" && go list -f '{{if ne .Name "main"}}'"$m"' {{.ImportPath}}{{end}}' ./... | grep -v /internal || true)
	done
}

incompatible=
while read -r m package; do
	old=$work/$(tr / _ <<<"$package")
	(cd "$work/last/$m" && "$apidiff" -w "$old" "$package")
	if ! found=$(cd "$m" 2>/dev/null && "$apidiff" "$old" "$package" 2>&1); then
		found="Incompatible changes:"$'\n'"- $package cannot be loaded any more: $found"
	fi
	[ -n "$found" ] || continue
	echo "== $package"
	echo "$found"
	if grep -q '^Incompatible changes' <<<"$found"; then incompatible+=" $package"; fi
done < <(cd "$work/last" && packages)

# part N VERSION
part() { cut -d. -f"$1" <<<"${2#v}"; }
if [ -z "$incompatible" ]; then
	echo "compatible with $last"
elif [ "$(part 1 "$next")" != "$(part 1 "$last")" ] || { [ "$(part 1 "$next")" = 0 ] && [ "$(part 2 "$next")" != "$(part 2 "$last")" ]; }; then
	echo "not compatible with $last, and $next says so; CHANGELOG.md must, too"
else
	echo "not compatible with $last, and $next does not say so:$incompatible" >&2
	exit 1
fi
