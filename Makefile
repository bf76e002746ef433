# What CI runs is here; every target works on a fresh machine with Go.

MODULES := $(shell sed -n '/^use (/,/^)/s/^\t//p' go.work)
GO      ?= go

.PHONY: test one lint examples fuzz mutants versions spec overlaps bench bench-quick tidy clean

## test: every module's tests, with the race detector, on real redis-server processes
test:
	@scripts/need-redis.sh
	@for m in $(MODULES); do echo "== $$m"; (cd $$m && $(GO) test -race -timeout 10m ./...) || exit 1; done

## one: the tests of one file of tests/: make one F=relay
one:
	@scripts/need-redis.sh
	@[ -f "tests/$(F)_test.go" ] || { echo "there is no tests/$(F)_test.go; tests/doc.go lists the files"; exit 1; }
	@cd tests && $(GO) test -race -run "^($$(sed -n 's/^func \(Test[A-Za-z0-9]*\)(.*/\1/p' $(F)_test.go | paste -sd'|' -))$$" .

## lint: formatting, vet, staticcheck, leases that are not released, prose, tidy modules, and that the root module needs rueidis only
lint: bin/staticcheck bin/gofumpt bin/redlatchvet
	@out=$$(bin/gofumpt -l $(MODULES)); [ -z "$$out" ] || { echo "not formatted (bin/gofumpt -w .):"; echo "$$out"; exit 1; }
	@for m in $(MODULES); do echo "== $$m"; (cd $$m && $(GO) vet ./... && $(CURDIR)/bin/staticcheck -checks all,-ST1000 ./... && $(GO) vet -vettool=$(CURDIR)/bin/redlatchvet ./...) || exit 1; done
	@scripts/deps.sh
	@scripts/prose.sh
	@scripts/tidy.sh --check

## examples: build and run every example program on the embedded server
examples:
	@scripts/examples.sh

## fuzz: a minute for each fuzz target
fuzz:
	@scripts/fuzz.sh

## mutants: break the code in known ways and check that the tests notice
mutants:
	@scripts/need-redis.sh
	@cd tests && REDLATCH_MUTANTS=1 $(GO) test -timeout 60m -run TestMutants -v .

## versions: the tests that talk to Redis, on Redis 6.0 to 8.6 and Valkey; V="redis-8.0 valkey-9.1" for some of them
versions:
	@scripts/versions.sh $(V)

## spec: check the model of a quorum's tokens with spin, and that it fails without each of its rules
spec:
	@scripts/spec.sh

## bench: redlatch beside other lock libraries, in one run of less than half an hour, and docs/benchmarks.md. ARGS='-rounds 3'
bench:
	@scripts/need-redis.sh
	@cd bench && $(GO) run . -out results.json -docs ../docs $(ARGS)

## bench-quick: a short form of it; fails if something does not run, or sends, starts or loses more than it should
bench-quick:
	@scripts/need-redis.sh
	@cd bench && $(GO) run . -quick

## overlaps: how often two hold at once when a deployment fails, and what a resource takes that looks at tokens; RUNS=20
overlaps:
	@scripts/need-redis.sh
	@cd tests && REDLATCH_TESTS_RUNS=$(or $(RUNS),20) $(GO) test -timeout 30m -run TestOverlaps -v . | grep -E '\| |FAIL|^ok' | sed 's/^.*_test.go:[0-9]*: //'

## tidy: go mod tidy in every module
tidy:
	@scripts/tidy.sh

clean:
	rm -rf bin .servers

bin/staticcheck bin/gofumpt: tools/go.mod
	cd tools && GOWORK=off $(GO) build -o ../bin/ tool
	@touch $@

bin/redlatchvet: $(shell find redlatchvet -name '*.go' -not -path '*/testdata/*') redlatchvet/go.mod
	cd redlatchvet && $(GO) build -o ../bin/ ./cmd/redlatchvet
	@touch $@
