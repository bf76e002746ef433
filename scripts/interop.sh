#!/bin/sh
# Runs the tests with lock libraries of other languages, after it has installed them where they are missing: Debian's packages, and
# npm's into .interop. The argument chooses tests.
set -eu
cd "$(dirname "$0")/.."
sudo=
[ "$(id -u)" = 0 ] || sudo=sudo
missing=
/usr/bin/python3 -c 'import redis' 2>/dev/null || missing="$missing python3-redis"
[ -f /usr/share/php/Illuminate/Cache/autoload.php ] || missing="$missing php-illuminate-cache"
php -m 2>/dev/null | grep -q '^redis$' || missing="$missing php-cli php-redis"
command -v redis-cli >/dev/null || missing="$missing redis-tools"
command -v node >/dev/null || missing="$missing nodejs"
command -v npm >/dev/null || missing="$missing npm"
if [ -n "$missing" ]; then
	command -v apt-get >/dev/null || { echo "install these, which apt-get would do on Debian:$missing" >&2; exit 1; }
	$sudo apt-get update -q
	# shellcheck disable=SC2086 # the packages are words
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing
fi
mkdir -p .interop
if ! cmp -s tests/peers/foreign/package.json .interop/package.json; then
	cp tests/peers/foreign/package.json .interop/
	(cd .interop && npm install --silent --no-audit --no-fund) || { rm .interop/package.json; exit 1; }
fi
cd tests
REDLATCH_INTEROP=$(cd ../.interop && pwd) exec "${GO:-go}" test -count=1 -timeout 10m -run "$1" -v ./peers
