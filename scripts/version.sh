#!/bin/sh
# Keeps the one version that all modules of this repository have.
#
#	scripts/version.sh                prints the version at which the modules require each other
#	scripts/version.sh set v1.2.3     writes it into every go.mod and into go.work
#	scripts/version.sh check          fails if a go.mod says another version, or could not be installed
#	scripts/version.sh modules        prints the directories of the modules that are released
#	scripts/version.sh tags           prints the tags of a release, in the order in which they are pushed
#	scripts/version.sh check-tags     fails unless each of them, and no other of that version, is at HEAD
#
# The modules are those of go.work. Programs and tests that are for this repository alone are not released.
set -eu
cd "$(dirname "$0")/.."
unreleased="./bench ./examples ./redlatchweb/browser ./tests"
own=github.com/redlatch/redlatch
modules=$(sed -n '/^use (/,/^)/s/^\t//p' go.work)

# released prints the modules that users get.
released() {
	for m in $modules; do
		case " $unreleased " in *" $m "*) ;; *) echo "$m" ;; esac
	done
}

# versions prints file and version, for each requirement of a sibling and each replacement in go.work.
versions() {
	for m in $modules; do sed -nE "s|^(require )?[[:space:]]*$own[a-z/]* (v[^ ]*).*|$m/go.mod \2|p" "$m/go.mod"; done
	sed -nE "s|^(replace )?[[:space:]]*$own[a-z/]* (v[^ ]*) =>.*|go.work \2|p" go.work
}

# required prints the modules that others of go.work require.
required() {
	for m in $modules; do sed -nE "s|^(require )?[[:space:]]*($own[a-z/]*) v.*|\2|p" "$m/go.mod"; done | sort -u
}

# tags prints the root's tag first: the others require it.
tags() {
	for m in $(released); do
		m=${m#.} && m=${m#/}
		echo "${m:+$m/}$1"
	done
}

version() { sed -nE "s|^(replace )?[[:space:]]*$own (v[^ ]*) =>.*|\2|p" go.work; }

check() {
	want=$(version)
	wrong=$(versions | grep -v " $want\$" || true)
	if [ -n "$wrong" ]; then
		echo "go.work says $want, but these do not (scripts/version.sh set $want):" >&2
		echo "$wrong" >&2
		return 1
	fi
	for m in $(released); do
		if grep -nE '^[[:space:]]*(replace|exclude)\b' "$m/go.mod" >&2; then
			echo "$m/go.mod: a module with such a line cannot be installed" >&2
			return 1
		fi
		for sibling in $(sed -nE "s|^(require )?[[:space:]]*($own[a-z/]*) v.*|\2|p" "$m/go.mod"); do
			dir=.${sibling#"$own"}
			if ! released | grep -qx "$dir"; then
				echo "$m/go.mod requires $sibling, which is not released" >&2
				return 1
			fi
			if ! grep -qE "[[:space:]]$sibling $want => " go.work; then
				echo "go.work does not replace $sibling $want (scripts/version.sh set $want)" >&2
				return 1
			fi
		done
	done
}

case ${1:-} in
"") version ;;
modules) released ;;
tags) tags "$(version)" ;;
check) check ;;
set)
	new=${2:-}
	if ! echo "$new" | grep -qE '^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$'; then
		echo "scripts/version.sh set wants a version such as v1.2.3" >&2
		exit 64
	fi
	for m in $modules; do
		sed -E "s|^((require )?[[:space:]]*$own[a-z/]*) v[^ ]*|\1 $new|" "$m/go.mod" >"$m/go.mod.new"
		if cmp -s "$m/go.mod" "$m/go.mod.new"; then rm "$m/go.mod.new"; else mv "$m/go.mod.new" "$m/go.mod"; fi
	done
	sed -E "s|^((replace )?[[:space:]]*$own[a-z/]*) v[^ ]* =>|\1 $new =>|" go.work >go.work.new && mv go.work.new go.work
	for sibling in $(required); do
		go work edit -replace="$sibling@$new=./$(echo "${sibling#"$own"}" | cut -c2-)"
	done
	go work edit -fmt
	check
	;;
check-tags)
	check
	want=$(version)
	have=$(git tag --points-at HEAD | grep -E "(^|/)$want\$" | sort || true)
	if [ "$(tags "$want" | sort)" != "$have" ]; then
		echo "the tags of $want at HEAD are not those of its modules (< missing, > too many):" >&2
		work=$(mktemp -d)
		tags "$want" | sort >"$work/want"
		echo "$have" >"$work/have"
		diff "$work/want" "$work/have" >&2 || true
		rm -r "$work"
		exit 1
	fi
	if ! grep -qF "## ${want#v} " CHANGELOG.md && ! grep -qF "## $want " CHANGELOG.md; then
		echo "CHANGELOG.md has no section for $want" >&2
		exit 1
	fi
	;;
*)
	sed -n 's/^# \{0,1\}//; 2,11p' "$0" >&2
	exit 64
	;;
esac
