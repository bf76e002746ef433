#!/bin/sh
# Makes sure that redis-server is on PATH, for the tests. Installs it with the system's package manager if it is missing.
set -eu
command -v redis-server >/dev/null && exit 0

as_root=
[ "$(id -u)" = 0 ] || as_root=sudo
echo "redis-server is missing: installing it" >&2
if command -v apt-get >/dev/null; then
	# Only the program is wanted; without this, some systems start a service on port 6379.
	$as_root apt-get update -qq
	$as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends redis-server >&2
elif command -v dnf >/dev/null; then
	$as_root dnf install -y -q redis >&2
elif command -v apk >/dev/null; then
	$as_root apk add -q redis >&2
elif command -v brew >/dev/null; then
	brew install -q redis >&2
else
	echo "no package manager found that this script knows: install redis-server (7.0 or newer) and try again" >&2
	exit 1
fi
command -v redis-server >/dev/null
