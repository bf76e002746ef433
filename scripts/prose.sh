#!/bin/sh
# Counts the comment and document lines that do not name their actor, by area, and fails if there are more
# than scripts/prose.txt allows. CONTRIBUTING.md has the rules. With --set it writes the file anew, and
# with --show it prints the lines.
set -eu
cd "$(dirname "$0")/.."
export LC_ALL=C.UTF-8

words='\b([Ww]ho(ever|m)?|[Ss]omebody|[Nn]obody|[Ee]verybody|sees? to|takes? in|is over|meanwhile)\b'

# lines AREA: what it has, as grep prints it.
lines() {
	case $1 in
	root) grep -HnE "//.*$words" ./*.go ;;
	lua) grep -rnE --include='*.lua' -e "--.*$words" internal ;;
	README) grep -HnE "$words" README.md ;;
	docs) grep -rnE --include='*.md' "$words" docs ;;
	*) grep -rnE --include='*.go' "//.*$words" "$1" ;;
	esac || true
}

status=0
counts=
for area in root internal lua conn fence redlatchrueidis redlatchgoredis README docs; do
	found=$(lines "$area")
	n=$(printf '%s' "$found" | grep -c '' || true)
	counts="$counts$area $n
"
	case ${1-} in
	--set) continue ;;
	--show) [ -z "$found" ] || printf '%s\n' "$found"; continue ;;
	esac
	allowed=$(sed -n "s/^$area //p" scripts/prose.txt)
	if [ "$n" -gt "${allowed:-0}" ]; then
		printf '%s\n' "$found"
		echo "prose: $area has $n lines of the kind above, and scripts/prose.txt allows ${allowed:-0}:"
		echo "name the actor (waiter, holder, client, node); see CONTRIBUTING.md"
		status=1
	elif [ "$n" -lt "${allowed:-0}" ]; then
		echo "prose: $area has $n such lines, no longer $allowed: scripts/prose.sh --set lowers the number"
	fi
done
if [ "${1-}" = --set ]; then printf '%s' "$counts" >scripts/prose.txt; fi
exit $status
