#!/bin/sh
# Runs the tests of redlatchweb/browser, after it has installed Chromium (Debian) and fetched axe-core (npm) into .web, where they are missing.
# The first argument chooses tests, the second is a directory for pictures of all states, or empty.
set -eu
cd "$(dirname "$0")/.."
version=4.14.1
axe=$(pwd)/.web/axe-$version.min.js
if ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then
	sudo=
	[ "$(id -u)" = 0 ] || sudo=sudo
	$sudo apt-get update -q && $sudo apt-get install -y -q --no-install-recommends chromium fonts-inter fonts-dejavu-core
fi
if [ ! -f "$axe" ]; then
	mkdir -p .web
	(cd .web && npm pack --silent "axe-core@$version" >/dev/null && tar xzf "axe-core-$version.tgz" package/axe.min.js && mv package/axe.min.js "$axe" && rm -r package "axe-core-$version.tgz")
fi
if [ -n "$2" ]; then mkdir -p "$2" && REDLATCH_SHOTS=$(cd "$2" && pwd) && export REDLATCH_SHOTS; fi
cd redlatchweb/browser
REDLATCH_AXE=$axe exec "${GO:-go}" test -count=1 -timeout 40m -run "$1" .
