#!/bin/sh
# Writes docs/dashboard/*.png, which docs/dashboard/gallery.md shows, from the pictures that `make web SHOTS=DIR` kept in DIR. It needs
# pngquant, of the Debian package of that name. A picture is a page of the gallery and a view of it.
set -eu
from=$(cd "$1" && pwd)
cd "$(dirname "$0")/../docs/dashboard"
rm -f ./*.png
while read -r name page views; do
	for view in $views; do
		case $view in
		light) of=wide ;;
		dark) of=wide-dark ;;
		narrow) of=narrow ;;
		esac
		pngquant --speed 1 --strip --force 64 --output "$name-$view.png" "$from/$page.$of.png"
	done
done <<'EOF'
empty empty-locks light dark narrow
one one-locks light dark narrow
busy contended-locks light dark narrow
lock contended-lock-name-invoice-2026-11-settle light dark narrow
deadlock deadlock-locks light dark narrow
many many-locks light dark narrow
queue queue-lock-name-the-one light dark narrow
down down-locks light dark narrow
lost lost-locks light dark narrow
slow slow-locks light dark narrow
denied denied-locks light dark narrow
mute mute-nodes light dark narrow
names hostile-locks light dark narrow
markup hostile-lock-name-3Cscript3Ealert(22122)3C-script3E light dark narrow
long hostile-lock-name-tenant-4f3c2b1a-region-eu-west-1-customer-tenant-4f3c2b1a-regi light dark narrow
processes contended-processes light
pools contended-pools light
slots contended-lock-name-worker-ids light
leaders contended-leaders light
record contended-record light
quorum quorum-nodes light
health contended-health light
EOF
du -ch ./*.png | tail -n 1
