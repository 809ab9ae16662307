# Everything a developer does here. It needs Go, make, git and bash; Java 17 and Maven for `integration`.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

SEEDS ?= 1000
FIRST ?= 0
RESULTS ?= docs/simulation.txt
BREAK ?=
CONFIG ?=
STATES ?= 0
NET ?=
FUZZTIME ?= 30s
BENCH ?= .
BROKERS ?=
FLOWS ?=
TESTFLAGS ?=
DURATION ?= 900
SEED ?= 1
MINUTES ?= 30
PACKAGE ?=

.PHONY: help
help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

.PHONY: demo
demo: ## Five worker processes through everything that goes wrong; MARSHAL_BROKERS=host:port for a real Kafka, PLANT=overlap|loss|regression|stale|released to see the checkers catch it
	@mkdir -p bin
	@go build -o bin/marshal ./marshal
	@bin/marshal demo

.PHONY: test
test: ## All tests on the embedded broker, in random order
	go test -shuffle=on -parallel 8 -timeout 10m $(TESTFLAGS) ./...
	go -C bench test $(TESTFLAGS) ./...

.PHONY: race
race: ## The same with the race detector
	@$(MAKE) --no-print-directory test TESTFLAGS=-race

.PHONY: integration
integration: ## Every flow on a real Apache Kafka, which it fetches, starts and stops: BROKERS=1|3 FLOWS=regexp for a part
	@BROKERS="$(BROKERS)" FLOWS="$(FLOWS)" .ci/integration

.PHONY: chaos
chaos: ## Six worker processes on three real brokers, and one fault after another: DURATION=900 (seconds) SEED=1
	@DURATION="$(DURATION)" SEED="$(SEED)" .ci/chaos chaos

.PHONY: soak
soak: ## Eight worker processes on 64 partitions of three real brokers, with a fault every 20 s: does anything grow? MINUTES=30
	@MINUTES="$(MINUTES)" .ci/chaos soak

.PHONY: sim
sim: ## Simulate the protocol: SEEDS=1000, from FIRST on or after those in RESULTS, where a line is added (RESULTS= : nowhere); BREAK=rule breaks one rule (BREAK=list names them)
	@go run -tags marshalbreak ./internal/sim/run -seeds $(SEEDS) -first $(FIRST) -break "$(BREAK)" -results "$(RESULTS)"
	@[[ -z "$(RESULTS)" || -n "$(BREAK)" ]] || go run ./internal/sim/run -sum -results "$(RESULTS)"

.PHONY: fuzz
fuzz: ## Every fuzz target for FUZZTIME=30s each
	@.ci/fuzz $(FUZZTIME)

.PHONY: bench
bench: ## Beside franz-go, sarama and kafka-go on a real Kafka: QUICK=1, EMBEDDED=1, ROUNDS=7, STRICT=1, TOPICS=name,... RESULTS=file, MARKDOWN=file, PROFILES=folder (docs/benchmarks.md)
	@.ci/bench

.PHONY: benchmarks
benchmarks: ## The benchmarks of this module: BENCH=regexp
	go test -run '^$$' -bench '$(BENCH)' -benchmem ./...

.PHONY: explore
explore: ## Explore whole what a few processes can come to: CONFIG=name for one (list names them), STATES=n to stop each there, BREAK=rule
	go run -tags marshalbreak ./internal/sim/explore/run -config "$(CONFIG)" -states $(STATES) -break "$(BREAK)"

.PHONY: mutants
mutants: mutants-list mutation ## Both of the next: what proves the rules must notice when one is broken

.PHONY: mutants-list
mutants-list: ## Break each rule of the protocol and run every net that must catch it: BREAK=rule for one, NET=simulator,fuzz,script for some nets
	go run ./internal/mutants/list -break "$(BREAK)" -net "$(NET)"

.PHONY: mutation
mutation: ## Change floor 1 in small ways, one at a time, and see that its tests notice: PACKAGE=window for one package
	go run ./internal/mutate $(PACKAGE)

.PHONY: scale
scale: ## Measure groups of up to 10,000 members and 500,000 partitions in simulated time, and draw docs/scale.svg; QUICK=1 for a part
	@go run ./internal/scale $(if $(QUICK),-grid quick,-svg docs/scale.svg)

.PHONY: nightly
nightly: ## All of what CI runs a part of: exploration, simulation, mutants, scale, long fuzzing; some hours
	@.ci/nightly

.PHONY: lint
lint: ## gofmt, go vet, go mod tidy, staticcheck
	@.ci/lint

.PHONY: tools
tools: ## Fetch and build the tools that lint uses
	cd tools && go mod download && go build -o ../bin/ tool
