# The commands of this repository: `make help`.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The modules of go.work: `make test` covers them in one go, lint and modules take them one by one.
MODULES := $(shell sed -nE 's,^(use)?[[:space:]]*\./([^[:space:]]+).*,\2,p' go.work)
$(if $(MODULES),,$(error go.work names no module: nothing would be checked))
# What is checked like them: a tool of our own, outside of go.work for the sake of its dependencies.
CHECKED := $(MODULES) tools/manifests

export PATH := $(PATH):/usr/local/go/bin
# No commit is stamped into binaries: in a clone that belongs to somebody else git refuses, and the build with it. Without paths in
# them, what one clone has compiled serves the next one.
export GOFLAGS := $(strip $(filter-out -buildvcs=% -trimpath,$(shell PATH="$$PATH:/usr/local/go/bin" go env GOFLAGS 2>/dev/null)) -buildvcs=false -trimpath)
# Tests that kill a real nats-server start this one.
export PARLEY_NATS_SERVER := $(CURDIR)/bin/nats-server

# What a caller may set.
ARGS ?=# arguments of run and bench
RACE ?=# 1: tests under the race detector
LONG ?=# 1: also the tests that take a minute or more, some of them ten
CACHED ?=# 1: results of earlier runs count, for packages that scripts/cacheable.sh lists
PACKAGES ?= $(MODULES:%=./%/...)
FIX ?=# 1: lint mends what it can
TESTFLAGS ?=# further flags of go test, such as -run TestName
FLAKY ?=# a file: failed tests are run again, at most twice, and those that then pass are reported there
CHAOS ?=# flags of chaos: -chaos.seed, -chaos.for
FORMAT ?= pkgname
FUZZTIME ?= 10s# of each fuzz target

race := $(filter-out 0 no,$(RACE))
long := $(filter-out 0 no,$(LONG))
cached := $(filter-out 0 no,$(CACHED))
# -count=1: tests of real processes are run, not remembered.
# -vet=off, -w: lint vets, and nobody debugs what is linked for one run.
gotest = bin/gotestsum --format $(FORMAT) --format-hide-empty-pkg -- \
	$(if $(race),-race) $(if $(long),-timeout 90m,-short -timeout 40m) $(if $(cached),,-count=1) -vet=off -ldflags=-w
# $(call run-tests,FLAGS,PACKAGES)
run-tests = $(if $(FLAKY),bin/retest -flaky $(FLAKY) -packages "$(2)" -- $(gotest) $(1),$(gotest) $(1) $(2))

# What is tested on servers in containers, and the images of deploy/docker/local.sh for where none can be pulled: without the container
# that clears up behind a test that was killed, which would be one more image.
LOCAL_IMAGES ?=
in_containers := ./shared/store ./shared/bus ./ingress/internal/dispatch ./workers/internal/sweep
containers = $(if $(filter-out 0 no,$(LOCAL_IMAGES)),PARLEY_TEST_POSTGRES_IMAGE=parley-local/postgres PARLEY_TEST_NATS_IMAGE=parley-local/nats TESTCONTAINERS_RYUK_DISABLED=true)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: ## Start Parley here, setting the machine up first (ARGS="--port 9000")
	@scripts/setup
	@scripts/build.sh parley ./deploy/standalone/cmd/parley
	@exec bin/parley up $(ARGS)

.PHONY: build
build: ## Build bin/parley, bin/ingress and bin/worker
	@scripts/build.sh parley ./deploy/standalone/cmd/parley
	@scripts/build.sh ingress ./ingress/cmd/ingress
	@scripts/build.sh worker ./workers/cmd/worker

.PHONY: test
test: ## Run the tests (LONG=1: also those that take minutes; RACE=1, PACKAGES=./shared/..., TESTFLAGS="-run TestName")
	@scripts/setup $(if $(race),race,test)
	@$(MAKE) -s bin/gotestsum bin/nats-server bin/esbuild
	@$(if $(FLAKY),scripts/build.sh retest ./scripts/retest)
	@$(call run-tests,$(TESTFLAGS),$(PACKAGES))

.PHONY: test-containers
test-containers: ## Run the tests of store, bus, dispatch and sweep, and one end to end, on PostgreSQL and NATS in containers (LOCAL_IMAGES=1)
	@$(MAKE) -s bin/gotestsum bin/nats-server
	@$(if $(filter-out 0 no,$(LOCAL_IMAGES)),deploy/docker/local.sh debian postgres nats >/dev/null)
	@$(containers) $(gotest) -tags containers $(TESTFLAGS) $(in_containers)
	@$(containers) $(gotest) -tags containers -run OnGivenServers ./scripts/e2e

.PHONY: test-upgrade
test-upgrade: ## Upgrade from the release before under load, and back: both releases as real processes
	@scripts/setup test
	@$(MAKE) -s bin/gotestsum bin/nats-server
	@$(if $(FLAKY),scripts/build.sh retest ./scripts/retest)
	@PARLEY_E2E_UPGRADE=1 $(call run-tests,$(TESTFLAGS) -run Upgrade,./scripts/e2e)

.PHONY: manifests
manifests: ## Check deploy/: Kubernetes manifests, Compose file, rules of alerts
	@cd tools/manifests && GOWORK=off go test -count=1 ./... # what it reads lies outside of its module

.PHONY: test-compose
test-compose: ## Run deploy/compose.yaml for real, and kill each of its containers once (LOCAL_IMAGES=1)
	@deploy/test-compose.sh

.PHONY: e2e
e2e: ## Run the end-to-end tests: real processes, real clients
	@scripts/setup test
	@$(MAKE) -s bin/gotestsum bin/nats-server
	@$(gotest) $(TESTFLAGS) ./scripts/e2e/...

.PHONY: chaos
chaos: ## Break everything for ten minutes under load, and look what was lost (CHAOS="-chaos.seed=7 -chaos.for=2m")
	@scripts/setup test
	@$(MAKE) -s bin/nats-server
	@cd scripts/chaos && exec go test -count=1 -timeout 90m -run 'TestChaos$$' -args -chaos.for=10m $(CHAOS)

.PHONY: abuse
abuse: ## Attack a real Parley for minutes, each attack beside a victim whose latency is measured (TESTFLAGS="-run Abuse/slow")
	@scripts/setup test
	@$(MAKE) -s bin/nats-server
	@cd scripts/abuse && exec go test -count=1 -timeout 60m -v $(TESTFLAGS) .

.PHONY: crashpoints
crashpoints: ## Kill, freeze and cut off real processes at every point of a run's path, and at every pair of points
	@$(MAKE) test LONG=1 PACKAGES="./shared/failpoint" TESTFLAGS="-tags failpoints"
	@$(MAKE) test LONG=1 PACKAGES="./scripts/crashpoints"

.PHONY: mutants
mutants: ## Leave out one rule of the delivery after the other, in the model and in the code: tests must notice
	@$(MAKE) test LONG=1 PACKAGES="./scripts/model ./scripts/mutants"

.PHONY: fuzz
fuzz: ## Run every fuzz target for a moment (FUZZTIME=10s, PACKAGES=ingress)
	@scripts/setup test
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh $(PACKAGES:%/...=%)

.PHONY: bench
bench: ## Measure runs a second and latency beside the floor (ARGS)
	@scripts/setup
	@$(MAKE) -s bin/nats-server
	@exec go run ./scripts/bench $(ARGS)

.PHONY: lint
lint: ## golangci-lint, gofumpt, sizes of files and packages, shell syntax (FIX=1 mends what it can)
	@$(MAKE) -s bin/golangci-lint bin/gofumpt bin/esbuild
	@$(if $(filter-out 0 no,$(FIX)),FIX=1) scripts/lint.sh $(CHECKED)

.PHONY: web
web: ## Bundle the dashboard, the widget and their style sheets
	@$(MAKE) -s bin/esbuild
	@scripts/web.sh

.PHONY: types
types: ## Check the types of the dashboard and the widget
	@$(MAKE) -s bin/tsgo
	@bin/tsgo -p ingress/web && echo 'types: clean'

.PHONY: fmt
fmt: ## Format all Go files with gofumpt
	@$(MAKE) -s bin/gofumpt
	@bin/gofumpt -w $(CHECKED)

.PHONY: modules
modules: ## Build and vet each module by itself, and check its go.mod
	@scripts/modules.sh $(CHECKED)

.PHONY: vuln
vuln: ## Look for known vulnerabilities in what the code calls (asks the public database)
	@$(MAKE) -s bin/govulncheck
	@for module in $(MODULES); do echo "vuln $$module" && (cd $$module && "$(CURDIR)/bin/govulncheck" ./...) || exit 1; done

.PHONY: generate
generate: ## Make the generated files anew, where there are go:generate lines
	@for module in $(MODULES); do \
		if ! grep -rqs --include='*.go' '^//go:generate ' $$module; then echo "generate $$module: nothing is generated"; continue; fi; \
		echo "generate $$module" && (cd $$module && go generate ./...) || exit 1; \
	done

.PHONY: verify
verify: ## What CI checks: lint, modules, test
	@$(MAKE) lint
	@$(MAKE) types
	@$(MAKE) modules
	@$(MAKE) test

.PHONY: nightly
nightly: ## What takes hours: race detector, long tests, upgrade, mutants, crash points, chaos, fuzz targets
	@.ci/run nightly

.PHONY: clean
clean: ## Remove bin: what was built, and the last bench's figures
	rm -rf bin

# Tools are built from their own modules, and again when their versions change.
bin/nats-server: tools/go.mod
	@scripts/build.sh nats-server github.com/nats-io/nats-server/v2 tools
bin/gotestsum: tools/go.mod
	@scripts/build.sh gotestsum gotest.tools/gotestsum tools
bin/gofumpt: tools/go.mod
	@scripts/build.sh gofumpt mvdan.cc/gofumpt tools
bin/govulncheck: tools/go.mod
	@scripts/build.sh govulncheck golang.org/x/vuln/cmd/govulncheck tools
bin/esbuild: tools/web/go.mod
	@scripts/build.sh esbuild github.com/evanw/esbuild/cmd/esbuild tools/web
bin/tsgo: tools/web/go.mod
	@scripts/build.sh tsgo github.com/microsoft/typescript-go/cmd/tsgo tools/web
bin/golangci-lint: tools/lint/go.mod
	@scripts/build.sh golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint tools/lint
