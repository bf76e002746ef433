#!/bin/sh
# Checks that the root module's own packages need nothing but the standard library and rueidis, so that a user's program carries no more;
# and that redlatchotel needs the API of OpenTelemetry beside that, and no SDK.
set -eu
cd "$(dirname "$0")/.."
extra=$(GOWORK=off go list -deps -f '{{if not .Standard}}{{.ImportPath}}{{end}}' . ./conn ./redlatchrueidis ./fence/... ./internal/... |
	grep -v -e '^github.com/redlatch/redlatch' -e '^github.com/redis/rueidis' -e '^golang.org/x/sys/' || true)
if [ -n "$extra" ]; then
	echo "the root module depends on more than rueidis and the standard library:" >&2
	echo "$extra" >&2
	exit 1
fi
extra=$(go list -deps -f '{{if not .Standard}}{{.ImportPath}}{{end}}' ./redlatchotel |
	grep -v -e '^github.com/redlatch/redlatch' -e '^github.com/redis/rueidis' -e '^golang.org/x/sys/' \
		-e '^go.opentelemetry.io/otel$' -e '^go.opentelemetry.io/otel/\(attribute\|baggage\|codes\|internal\|log\|metric\|propagation\|semconv\|trace\)' \
		-e '^github.com/cespare/xxhash/' -e '^github.com/go-logr/' -e '^go.opentelemetry.io/auto/sdk' || true)
if [ -n "$extra" ]; then
	echo "redlatchotel depends on more than the API of OpenTelemetry:" >&2
	echo "$extra" >&2
	exit 1
fi
