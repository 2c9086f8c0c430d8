# The commands of this repository: `make help`.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The modules of go.work. `make test` runs them together; `make lint` and `make modules` handle them
# one by one.
MODULES := $(shell sed -nE 's,^(use)?[[:space:]]*\./([^[:space:]]+).*,\2,p' go.work)
$(if $(MODULES),,$(error go.work names no module))
# The modules that lint checks. tools/manifests is outside of go.work because of its dependencies.
CHECKED := $(MODULES) tools/manifests

export PATH := $(PATH):/usr/local/go/bin
# Binaries contain no commit: git refuses to read a clone that belongs to another user, and the
# build would fail. Binaries contain no paths, so that all clones can share the build cache.
export GOFLAGS := $(strip $(filter-out -buildvcs=% -trimpath,$(shell PATH="$$PATH:/usr/local/go/bin" go env GOFLAGS 2>/dev/null)) -buildvcs=false -trimpath)
# The nats-server that tests start and kill.
export PARLEY_NATS_SERVER := $(CURDIR)/bin/nats-server

# Variables for callers.
ARGS ?=# arguments of run and bench
RACE ?=# 1: use the race detector
LONG ?=# 1: include tests that take a minute or more, some of them ten
CACHED ?=# 1: use cached results, for the packages that scripts/cacheable.sh lists
PACKAGES ?= $(MODULES:%=./%/...)
FIX ?=# 1: lint fixes what it can
TESTFLAGS ?=# further flags of go test, such as -run TestName
FLAKY ?=# a file: repeat failed tests at most twice, and report those that then pass in it
CHAOS ?=# flags of chaos: -chaos.seed, -chaos.for
FORMAT ?= pkgname
FUZZTIME ?= 10s# for each fuzz target

race := $(filter-out 0 no,$(RACE))
long := $(filter-out 0 no,$(LONG))
cached := $(filter-out 0 no,$(CACHED))
# -count=1: no cached results, because tests start real processes.
# -vet=off: `make lint` runs vet. -w: no debugger reads the test binaries.
gotest = bin/gotestsum --format $(FORMAT) --format-hide-empty-pkg -- \
	$(if $(race),-race) $(if $(long),-timeout 90m,-short -timeout 40m) $(if $(cached),,-count=1) -vet=off -ldflags=-w
# $(call run-tests,FLAGS,PACKAGES)
run-tests = $(if $(FLAKY),bin/retest -flaky $(FLAKY) -packages "$(2)" -- $(gotest) $(1),$(gotest) $(1) $(2))

# Packages that are tested with servers in containers. LOCAL_IMAGES=1 selects the images that deploy/docker/local.sh
# builds, and disables Ryuk (the container that removes leftovers), because Ryuk has an image of its own.
LOCAL_IMAGES ?=
in_containers := ./shared/store ./shared/bus ./ingress/internal/dispatch ./workers/internal/sweep
containers = $(if $(filter-out 0 no,$(LOCAL_IMAGES)),PARLEY_TEST_POSTGRES_IMAGE=parley-local/postgres PARLEY_TEST_NATS_IMAGE=parley-local/nats TESTCONTAINERS_RYUK_DISABLED=true)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: run
run: ## Install what is missing, and start Parley (ARGS="--port 9000")
	@scripts/setup
	@scripts/build.sh parley ./deploy/standalone/cmd/parley
	@exec bin/parley up $(ARGS)

.PHONY: build
build: ## Build bin/parley, bin/ingress and bin/worker
	@scripts/build.sh parley ./deploy/standalone/cmd/parley
	@scripts/build.sh ingress ./ingress/cmd/ingress
	@scripts/build.sh worker ./workers/cmd/worker

.PHONY: test
test: ## Run the tests (LONG=1: include those that take minutes; RACE=1, PACKAGES=./shared/..., TESTFLAGS="-run TestName")
	@scripts/setup $(if $(race),race,test)
	@$(MAKE) -s bin/gotestsum bin/nats-server bin/esbuild
	@$(if $(FLAKY),scripts/build.sh retest ./scripts/retest)
	@$(call run-tests,$(TESTFLAGS),$(PACKAGES))

.PHONY: test-containers
test-containers: ## Run tests of store, bus, dispatch and sweep, and one end-to-end test, with PostgreSQL and NATS in containers (LOCAL_IMAGES=1)
	@$(MAKE) -s bin/gotestsum bin/nats-server
	@$(if $(filter-out 0 no,$(LOCAL_IMAGES)),deploy/docker/local.sh debian postgres nats >/dev/null)
	@$(containers) $(gotest) -tags containers $(TESTFLAGS) $(in_containers)
	@$(containers) $(gotest) -tags containers -run OnGivenServers ./scripts/e2e

.PHONY: test-upgrade
test-upgrade: ## Upgrade from the previous release under load and back, with real processes
	@scripts/setup test
	@$(MAKE) -s bin/gotestsum bin/nats-server
	@$(if $(FLAKY),scripts/build.sh retest ./scripts/retest)
	@PARLEY_E2E_UPGRADE=1 $(call run-tests,$(TESTFLAGS) -run Upgrade,./scripts/e2e)

.PHONY: manifests
manifests: ## Check deploy/: Kubernetes manifests, Compose file, alert rules
	@cd tools/manifests && GOWORK=off go test -count=1 ./... # the cache does not notice changes to files outside of the module

.PHONY: test-compose
test-compose: ## Run deploy/compose.yaml, and kill each of its containers once (LOCAL_IMAGES=1)
	@deploy/test-compose.sh

.PHONY: e2e
e2e: ## Run the end-to-end tests: real processes, real clients
	@scripts/setup test
	@$(MAKE) -s bin/gotestsum bin/nats-server
	@$(gotest) $(TESTFLAGS) ./scripts/e2e/...

.PHONY: chaos
chaos: ## Inject faults for ten minutes under load, and check the promises (CHAOS="-chaos.seed=7 -chaos.for=2m")
	@scripts/setup test
	@$(MAKE) -s bin/nats-server
	@cd scripts/chaos && exec go test -count=1 -timeout 90m -run 'TestChaos$$' -args -chaos.for=10m $(CHAOS)

.PHONY: abuse
abuse: ## Attack a real Parley, and measure a victim's latency during each attack (TESTFLAGS="-run Abuse/slow")
	@scripts/setup test
	@$(MAKE) -s bin/nats-server
	@cd scripts/abuse && exec go test -count=1 -timeout 60m -v $(TESTFLAGS) .

.PHONY: crashpoints
crashpoints: ## Kill, freeze and disconnect processes at every point of a run's path, and at every pair of points
	@$(MAKE) test LONG=1 PACKAGES="./shared/failpoint" TESTFLAGS="-tags failpoints"
	@$(MAKE) test LONG=1 PACKAGES="./scripts/crashpoints"

.PHONY: mutants
mutants: ## Leave out one rule after another, in the model and in the code: tests must fail
	@$(MAKE) test LONG=1 PACKAGES="./scripts/model ./scripts/mutants"

.PHONY: fuzz
fuzz: ## Run every fuzz target briefly (FUZZTIME=10s, PACKAGES=ingress)
	@scripts/setup test
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh $(PACKAGES:%/...=%)

.PHONY: bench
bench: ## Measure throughput and latency, compared with a floor (ARGS)
	@scripts/setup
	@$(MAKE) -s bin/nats-server
	@exec go run ./scripts/bench $(ARGS)

.PHONY: lint
lint: ## golangci-lint, gofumpt, sizes of files and packages, shell syntax, banned words (FIX=1 fixes what it can)
	@$(MAKE) -s bin/golangci-lint bin/gofumpt bin/esbuild
	@$(if $(filter-out 0 no,$(FIX)),FIX=1) scripts/lint.sh $(CHECKED)

.PHONY: web
web: ## Bundle the dashboard, the widget and their style sheets
	@$(MAKE) -s bin/esbuild
	@scripts/web.sh

.PHONY: screenshots
screenshots: ## Take the screenshots of README.md (docs/images)
	@scripts/setup test
	@$(MAKE) -s bin/nats-server
	@go test -count=1 ./scripts/browser -run 'TestTour$$' -update

.PHONY: types
types: ## Check the types of the dashboard and the widget
	@$(MAKE) -s bin/tsgo
	@bin/tsgo -p ingress/web && echo 'types: clean'

.PHONY: fmt
fmt: ## Format all Go files with gofumpt
	@$(MAKE) -s bin/gofumpt
	@bin/gofumpt -w $(CHECKED)

.PHONY: modules
modules: ## Check the imports and the go.mod of each module, without go.work
	@scripts/modules.sh $(CHECKED)

.PHONY: vuln
vuln: ## Search the called code for known vulnerabilities (uses the public database)
	@$(MAKE) -s bin/govulncheck
	@for module in $(MODULES); do echo "vuln $$module" && (cd $$module && "$(CURDIR)/bin/govulncheck" ./...) || exit 1; done

.PHONY: generate
generate: ## Regenerate files, by the go:generate lines
	@for module in $(MODULES); do \
		if ! grep -rqs --include='*.go' '^//go:generate ' $$module; then echo "generate $$module: no go:generate lines"; continue; fi; \
		echo "generate $$module" && (cd $$module && go generate ./...) || exit 1; \
	done

.PHONY: verify
verify: ## Run the checks of CI: lint, types, modules, test
	@$(MAKE) lint
	@$(MAKE) types
	@$(MAKE) modules
	@$(MAKE) test

.PHONY: nightly
nightly: ## Run what takes hours: race detector, long tests, upgrade, mutants, crash points, chaos, fuzz targets
	@.ci/run nightly

.PHONY: clean
clean: ## Remove bin: binaries, and the last results of the bench
	rm -rf bin

# Tools are built from their own modules, and rebuilt when their versions change.
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
