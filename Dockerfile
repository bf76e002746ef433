# The command in an image with nothing else: no shell, no user but nobody, and certificates for rediss://.
#
#	docker build -t redlatch .
#	docker run --rm redlatch --redis redis://db:6379 doctor
#
# `--build-arg TAGS=redlatch_small` leaves demo, dev, verify and web out, and two thirds of the size.
#
# To run commands under locks, take the program into an image that has them:
#
#	COPY --from=ghcr.io/redlatch/redlatch /redlatch /usr/local/bin/redlatch
FROM --platform=$BUILDPLATFORM golang:1.26-alpine AS build
ARG TARGETOS TARGETARCH VERSION COMMIT TAGS
WORKDIR /src
COPY . .
RUN apk add --no-cache ca-certificates
RUN cli=github.com/redlatch/redlatch/cmd/redlatch/internal/cli; \
	CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -tags "$TAGS" \
	-ldflags "-s -w -X $cli.releaseVersion=$VERSION -X $cli.releaseCommit=$COMMIT" -o /redlatch ./cmd/redlatch

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /redlatch /redlatch
USER 65532:65532
ENTRYPOINT ["/redlatch"]
