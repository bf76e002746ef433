#!/bin/bash
# Runs the tests that talk to Redis on every server version that can be had, and says which passed, failed, or could not be tested.
#
#	scripts/versions.sh [NAME...]      such as redis-8.0; default all
#	FOLDERS='./promises ./kinds' for some folders of tests/
set -uo pipefail
cd "$(dirname "$0")/.."
scripts/need-redis.sh
failed=0
report=

try() { # NAME PROGRAM
	local name=$1 program=$2 version
	version=$("$program" --version | sed 's/.* v=\([0-9.]*\).*/\1/')
	echo "== $name $version"
	if REDLATCH_REDIS_SERVER=$program go test -count=1 -timeout 10m . ./redlatchrueidis ./fence/... &&
		(cd redlatchgoredis && REDLATCH_REDIS_SERVER=$program go test -count=1 -timeout 10m ./...) &&
		(cd tests && REDLATCH_REDIS_SERVER=$program go test -count=1 -timeout 10m ${FOLDERS:-./...}); then
		report+="$name $version passed"$'\n'
	else
		report+="$name $version FAILED"$'\n'
		failed=1
	fi
}

wanted() { # NAME ARGUMENT...
	local name=$1
	shift
	[ $# = 0 ] || [[ " $* " == *" $name "* ]]
}

if wanted installed "$@"; then try installed "$(command -v redis-server)"; fi
while read -r name program; do
	wanted "$name" "$@" || continue
	if [ "$program" = missing ]; then
		report+="$name not tested: it cannot be had"$'\n'
	else
		try "$name" "$program"
	fi
done < <(scripts/servers.sh .servers)
echo
echo "$report"
exit "$failed"
