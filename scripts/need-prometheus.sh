#!/bin/sh
# Makes sure that prometheus and promtool are on PATH, for the rules. Installs them with the system's package manager if they are missing.
set -eu
command -v prometheus >/dev/null && command -v promtool >/dev/null && exit 0

as_root=
[ "$(id -u)" = 0 ] || as_root=sudo
echo "prometheus is missing: installing it" >&2
if command -v apt-get >/dev/null; then
	# Only the programs are wanted; without this, some systems start a service on port 9090.
	$as_root apt-get update -qq
	$as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends prometheus >&2
elif command -v dnf >/dev/null; then
	$as_root dnf install -y -q prometheus >&2
elif command -v brew >/dev/null; then
	brew install -q prometheus >&2
else
	echo "no package manager found that this script knows: install prometheus, with promtool, and try again" >&2
	exit 1
fi
command -v prometheus >/dev/null && command -v promtool >/dev/null
