#!/bin/sh
# Puts each deployment under faults for the time that is given, and prints how many acquisitions there were in all.
set -eu
cd "$(dirname "$0")/.."
for deployment in one sentinel cluster quorum; do
	echo "== $deployment"
	rm -rf ".verify/$deployment"
	bin/redlatch verify --deployment "$deployment" --disrupt --yes --workers 6 --duration "$1" --out ".verify/$deployment"
done
for report in .verify/*/report.json; do
	tr -d ' \n' <"$report" | sed 's/.*"acquired":{\([^}]*\)}.*/\1/' | tr ',' '\n'
	echo
done | awk -F: '{ sum += $2 } END { printf "== %d acquisitions in all\n", sum }'
