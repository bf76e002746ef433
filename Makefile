# What CI runs is here; every target works on a fresh machine with Go.

MODULES := $(shell sed -n '/^use (/,/^)/s/^\t//p' go.work)
GO      ?= go

# All of client-go is compiled for this one. With the race detector that takes as long as all tests
# of the other modules; the adapter has little that runs at once, which the others' tests cover.
UNRACED := ./adapters/redlatchkube

.PHONY: help test test-all steady simulate mutants-simulated one web lint house examples fuzz mutants versions spec overlaps endurance verify verify-quick bench bench-quick observability interop release-rehearsal apidiff packages cross tidy clean

## help: what can be made
help:
	@sed -n 's/^## \([^:]*\): /\1\t/p' Makefile | expand -t 20

## test: the quick tests: components, a minute of simulation, the promises on real redis-server processes
test:
	@scripts/test.sh

## test-all: every module's tests, with the race detector
test-all:
	@scripts/test-all.sh '$(UNRACED)' $(MODULES)

## steady: make test 20 times beside two busy loops, and which test failed how often; N=20
steady:
	@scripts/steady.sh '$(or $(N),20)'

## simulate: whole clients in virtual time, in worlds that a seed describes; SEEDS=1000, or SEED=7 for one again, with its story
simulate:
	@scripts/simulate.sh '$(or $(SEEDS),1000)' '$(SEED)'

## one: the tests of one file below tests/, in whichever folder it is: make one F=relay
one:
	@scripts/need-redis.sh
	@scripts/one.sh '$(F)'

## web: the dashboard in Chromium, each state in light and dark, wide and narrow, with axe-core; installs both. SHOTS=DIR keeps pictures (scripts/gallery.sh DIR puts them into docs/dashboard), RUN=REGEXP chooses tests
web:
	@scripts/web.sh '$(or $(RUN),.)' '$(SHOTS)'

## lint: formatting, vet, staticcheck, leases that are not released, prose, measures, tidy modules, and that the root module needs rueidis only
lint: bin/staticcheck bin/gofumpt bin/redlatchvet bin/house
	@out=$$(bin/gofumpt -l $(MODULES)); [ -z "$$out" ] || { echo "not formatted (bin/gofumpt -w .):"; echo "$$out"; exit 1; }
	@$(GO) vet $(MODULES:%=%/...)
	@bin/staticcheck -checks all,-ST1000 $(MODULES:%=%/...)
	@$(GO) vet -vettool=$(CURDIR)/bin/redlatchvet $(MODULES:%=%/...)
	@scripts/deps.sh
	@scripts/prose.sh
	@bin/house
	@scripts/tidy.sh --check
	@scripts/version.sh check

## house: measures of the tree, and the goal of each; lint fails if one gets worse. SET=1 writes them down, KNOTS=1 prints which files reach each other
house: bin/house
	@bin/house $(if $(SET),-set) $(if $(KNOTS),-knots)

## examples: build and run every example program on the embedded server
examples:
	@scripts/examples.sh

## fuzz: a minute for each fuzz target
fuzz:
	@scripts/fuzz.sh

## mutants: break the code in known ways and check that the tests notice; M='forced|quorum' for those whose names match
mutants:
	@scripts/need-redis.sh
	@cd tests && REDLATCH_MUTANTS='$(or $(M),.)' $(GO) test -timeout 120m -run TestMutants -v ./mutants

## mutants-simulated: which mutants the simulation finds by itself in 140 worlds each, about a minute of a core; M as above
mutants-simulated:
	@cd tests && REDLATCH_SIMULATED='$(or $(M),.)' $(GO) test -count=1 -timeout 20h -parallel 2 -run TestMutantsAreSimulated -v ./mutants

## versions: the tests that talk to Redis, on Redis 6.0 to 8.6 and Valkey; V="redis-8.0 valkey-9.1" for some of them
versions:
	@scripts/versions.sh $(V)

## spec: check the model of a quorum's tokens with spin, and that it fails without each of its rules
spec:
	@scripts/spec.sh

## bench: redlatch beside other lock libraries, in less than half an hour, with tables and plots in docs/benchmarks. ARGS='-parts users,few' for some parts, '-rounds 3'
bench:
	@scripts/need-redis.sh
	@cd bench && $(GO) run . -out results.json -docs ../docs/benchmarks $(ARGS)

## bench-quick: a short form of it; fails if something does not run, or sends, starts or loses more than it should
bench-quick:
	@scripts/need-redis.sh
	@cd bench && $(GO) run . -quick

## observability: check and test the rules for Prometheus, and try the queries of rules and board on a Prometheus
observability:
	@scripts/need-redis.sh
	@scripts/need-prometheus.sh
	@cd observability && promtool check rules redlatch.rules.yml && promtool test rules redlatch.rules.test.yml
	@cd redlatchprom && $(GO) test -run TestNamesAndHelp .
	@cd tests && REDLATCH_OBSERVABILITY=1 $(GO) test -count=1 -timeout 5m -run 'TestObservability$$|TestBoard|TestAlerts|TestEveryMetricIsDocumented|TestRunbook' ./operations

## interop: the tests with lock libraries of other languages, which it installs (apt-get, npm); RUN=REGEXP chooses tests
interop:
	@scripts/need-redis.sh
	@scripts/interop.sh '$(or $(RUN),TestRealClients|TestNeighbours|TestPython|TestOtherLibraries)'

## overlaps: how often two hold at once when a deployment fails, and what a resource takes that looks at tokens; RUNS=20
overlaps:
	@scripts/need-redis.sh
	@cd tests && REDLATCH_TESTS_RUNS=$(or $(RUNS),20) $(GO) test -timeout 30m -run TestOverlaps -v ./deployments | grep -E '\| |FAIL|^ok' | sed 's/^.*_test.go:[0-9]*: //'

## endurance: 10,000 leases held and 1,000 locks waited for while connections are cut; as much of everything is left as was there; FOR=1h
endurance:
	@scripts/need-redis.sh
	@cd tests && REDLATCH_ENDURANCE=$(or $(FOR),1h) $(GO) test -count=1 -timeout 24h -run TestEndurance -v ./process

## verify: twelve minutes under faults on each deployment: one server, Sentinel, cluster, quorum; a million acquisitions on two cores with nothing beside. The records go to .verify. FOR=12m
verify: bin/redlatch
	@scripts/need-redis.sh
	@scripts/verify.sh '$(or $(FOR),12m)'

## verify-quick: every known way to break redlatch must be found, in less than two minutes; B='no-token|herd' for those whose names match
verify-quick:
	@scripts/need-redis.sh
	@cd cmd/redlatch && $(GO) test -tags redlatch_break -count=1 -run 'TestBreaksAreFound/^($(or $(B),.*))$$' ./internal/verify

## release-rehearsal: tag a clone, build packages, sums and the image, pack all modules as a release would, and install and use them from an empty directory
release-rehearsal:
	@scripts/rehearse.sh

## apidiff: what changed in the Go API since the last release; fails if the next version must be a larger step
apidiff: bin/apidiff
	@scripts/apidiff.sh

## packages: static binaries for this machine, man pages, completions, and the Debian and RPM packages, in dist/
packages:
	@scripts/packages.sh

## cross: compile the command, static, for every target of .goreleaser.yaml
cross:
	@scripts/cross.sh

## tidy: go mod tidy in every module
tidy:
	@scripts/tidy.sh

clean:
	rm -rf bin dist .servers .verify .web .interop

bin/redlatch: $(shell find . -name '*.go' -not -path './bench/*' -not -path './tests/*') $(shell find internal/protocol/script/lua -name '*.lua')
	cd cmd/redlatch && $(GO) build -o ../../bin/ .

bin/staticcheck bin/gofumpt bin/apidiff: tools/go.mod
	cd tools && GOWORK=off $(GO) build -o ../bin/ tool
	@touch $@

bin/house: $(wildcard tools/house/*.go) tools/go.mod
	cd tools && GOWORK=off $(GO) build -o ../bin/ ./house

bin/redlatchvet: $(shell find redlatchvet -name '*.go' -not -path '*/testdata/*') redlatchvet/go.mod
	cd redlatchvet && $(GO) build -o ../bin/ ./cmd/redlatchvet
	@touch $@
