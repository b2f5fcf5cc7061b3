# Osaurus Sandbox. `make help` lists the targets.

SHELL       := scripts/shell
.DEFAULT_GOAL := build

export PATH := $(PATH):/usr/local/go/bin

GO           ?= go
STATICCHECK  := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GUEST_ARCHES := amd64 arm64
PROGRAM      := bin/osaurus-sandbox
FUZZTIME     ?= 30s

# Everything is compiled in one of two ways: without C, as it is shipped, or with the race
# detector, as it is tested and vetted. On macOS the driver is C.
NO_C = $(if $(filter Linux,$(shell uname)),CGO_ENABLED=0) GOFLAGS="$$($(GO) env GOFLAGS) -trimpath"

# SQLite is translated C, which takes twice as long with the race detector in it.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false

LINT = $(NO_C) $(GO) run -exec 'env CGO_ENABLED=1 "GOFLAGS=$(shell $(GO) env GOFLAGS) $(RACE)"' $(STATICCHECK)
TEST = $(GO) test -vet=off

# With the stand-in for vz, the macOS driver's own code runs on Linux.
STANDIN := GOWORK=$(CURDIR)/vm/vz/standin/go.work

# Identity that signs the macOS program: a certificate's name, "-" for ad hoc, or nothing for the
# first Apple certificate in the Keychain, if any. See scripts/sign.
SIGN_AS ?=

# Without this, every test binary waits a second for late races when it ends.
export GORACE := atexit_sleep_ms=20

# A package that runs longer is stuck.
UNIT_TIMEOUT  := 20m
GUEST_TIMEOUT := 40m

# What a package's tests import decides its tier: the guest tier boots machines, the kernel
# tier reads real kernels and archives, the unit tier does neither.
TIERS = $(shell $(GO) list -f '{{.ImportPath}} {{.Deps}} {{.TestImports}} {{.XTestImports}}' ./... | \
  awk '/osaurus-sandbox\/(internal\/lab|vm\/vmtest)[] ]/ {print (/osaurus-sandbox\/vm\/(qemu|vmtest)[] ]/ ? "guest:" : "kernel:") $$1}')
LONGEST     = osaurus-sandbox/supervisor/boot
BENCHMARKS  = osaurus-sandbox/bench
GUEST_TIER  = $(LONGEST) $(filter-out $(LONGEST) $(BENCHMARKS),$(patsubst guest:%,%,$(filter guest:%,$(TIERS))))
KERNEL_TIER = $(filter-out osaurus-sandbox/internal/lab,$(patsubst kernel:%,%,$(filter kernel:%,$(TIERS))))
# These start themselves thousands of times, which takes ten times as long with the race detector.
NO_RACE     = osaurus-sandbox/engine/local osaurus-sandbox/engine/enginetest osaurus-sandbox/internal/darwincheck osaurus-sandbox/internal/archtest
# What depends on neither distribution nor processor runs on Debian, and on Alpine over the stand-in.
ELSEWHERE   = ^TestRooms$$/^Alpine$$/^(Attack|Bridge|Network|Snapshots|History|Shells)$$
UNIT_TIER   = $(filter-out $(GUEST_TIER) $(KERNEL_TIER) $(NO_RACE) $(BENCHMARKS) osaurus-sandbox/internal/lab,$(shell $(GO) list ./...))

.PHONY: help setup setup-run build guest-programs mcpb run test nightly tiers quick-lane guest-lane lab lint check-darwin lint-darwin unit kernel guest standin faults app first-mac release-check fuzz bench generate clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install the packages that tests need (Debian, Ubuntu), or name them
	@scripts/setup

setup-run:
	@scripts/setup run

build: guest-programs ## build bin/osaurus-sandbox with the guest programs in it
	$(NO_C) $(GO) build -buildvcs=auto -o $(PROGRAM) ./cmd/osaurus-sandbox

guest-programs:
	@for arch in $(GUEST_ARCHES); do for program in osaurus-guest osaurus-host; do \
	  echo "building $$program for $$arch guests"; \
	  $(NO_C) CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -buildvcs=false -ldflags='-s -w' \
	    -o guest/embedded/bin/$$program-$$arch ./cmd/$$program || exit 1; \
	done; done

mcpb: build ## build bin/osaurus-sandbox.mcpb, for apps that install MCP servers from bundles
	@scripts/mcpb $(PROGRAM) "$$(git describe --tags --always 2>/dev/null | grep -E '^v[0-9]' || echo v0.0.0)" $(PROGRAM).mcpb

run: ## build, start a sandbox and show its state
	@echo "Building takes about two minutes the first time; making and booting the sandbox takes a few more (no KVM: longer)."
	@$(MAKE) --no-print-directory setup-run build
	@$(PROGRAM) doctor
	@$(PROGRAM) up
	@$(PROGRAM) exec --root -- sh -c '. /etc/os-release; echo "$$PRETTY_NAME, $$(uname -rm)"'
	@echo
	@echo "The sandbox is running. Next: README.md, The first ten minutes. To stop it: $(PROGRAM) down --daemon"

test: setup guest-programs ## lint and run all tests; fails if anything is left behind
	@scripts/leakcheck $(MAKE) --no-print-directory tiers

# Two lanes: compilers use the time in which guests wait.
tiers:
	@$(MAKE) --no-print-directory --jobs=2 quick-lane guest-lane

quick-lane: LANE = lint check-darwin unit kernel
quick-lane: NICE = nice
guest-lane: LANE = lab guest standin
quick-lane guest-lane:
	@for tier in $(LANE); do \
	  start=$$SECONDS; \
	  $(NICE) $(MAKE) --no-print-directory $$tier; \
	  echo "== $$tier: $$((SECONDS - start)) s"; \
	done

nightly: setup guest-programs lab ## what is too slow for every change
	$(STANDIN) $(GO) vet $(RACE) -tags vzstandin ./vm/vz ./supervisor/e2e github.com/Code-Hex/vz/v3
	$(STANDIN) $(LINT) -tags vzstandin ./vm/vz github.com/Code-Hex/vz/v3
	$(TEST) $(RACE) -short -timeout $(GUEST_TIMEOUT) $(KERNEL_TIER)
	$(TEST) $(RACE) -timeout $(GUEST_TIMEOUT) -run '$(ELSEWHERE)' ./supervisor/boot
	$(STANDIN) $(TEST) $(RACE) -tags vzstandin -timeout $(GUEST_TIMEOUT) -run '^TestRooms$$/^Alpine$$/^Hog$$/^(SharedMemory|Descriptors)$$' ./supervisor/boot
	$(STANDIN) $(TEST) $(RACE) -tags vzstandin -timeout $(GUEST_TIMEOUT) -run '^(TestRooms|TestGateway)$$/^Debian$$' \
	  -skip '^TestRooms$$/^Debian$$/^Hog$$/^(SharedMemory|Descriptors)$$' ./supervisor/boot # skips without qemu-user-static and arch-test
	$(MAKE) --no-print-directory lint-darwin faults

lint: ## check formatting, vet, staticcheck and the module's structure
	@unformatted=$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...)); \
	if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet $(RACE) ./...
	$(LINT) ./...
	$(NO_C) $(TEST) -count=1 ./internal/archtest

unit: ## run the tests that boot nothing, with the race detector
	$(TEST) $(RACE) -timeout $(UNIT_TIMEOUT) $(UNIT_TIER)
	$(NO_C) $(TEST) -timeout $(UNIT_TIMEOUT) $(filter-out %/archtest,$(NO_RACE))

lab: guest-programs ## make the kernels, packs and images that tests use, once
	$(NO_C) $(TEST) -count=1 -timeout $(GUEST_TIMEOUT) ./internal/lab

kernel: ## run the tests on real kernels and archives
	$(NO_C) $(TEST) -timeout $(GUEST_TIMEOUT) $(KERNEL_TIER)

guest: ## run the tests on machines with real kernels, with the race detector
	@ls "$${OSAURUS_ALPINE:-../shared/alpine}"/alpine-minirootfs-*.tar.gz >/dev/null 2>&1 || \
	  echo "*** no Alpine root file system in $${OSAURUS_ALPINE:-../shared/alpine}: busybox stands in for Alpine, and building the toolbox image is not tested"
	$(TEST) $(RACE) -p 2 -timeout $(GUEST_TIMEOUT) -skip '$(ELSEWHERE)' $(GUEST_TIER)

check-darwin: ## type-check the macOS code, on both architectures, without a Mac
	$(GO) run -trimpath ./internal/darwincheck

lint-darwin: ## run compiler, vet and staticcheck for macOS, without a Mac
	$(GO) run -trimpath ./internal/darwincheck tools

standin: export VZ_STANDIN_RUDE = mute,disconnect,stop
standin: ## run the macOS driver over a rude stand-in for vz, with real arm64 kernels
	VZ_STANDIN_RUDE=disconnect,stop $(STANDIN) $(TEST) $(RACE) -tags vzstandin -timeout $(GUEST_TIMEOUT) ./vm/vz ./vm/child
	$(STANDIN) $(TEST) $(RACE) -tags vzstandin -timeout $(GUEST_TIMEOUT) -run '^TestLife$$' ./supervisor/e2e
	$(STANDIN) $(TEST) $(RACE) -tags vzstandin -timeout $(GUEST_TIMEOUT) -run '^(TestRooms|TestGateway)$$/^Alpine$$' \
	  -skip '^TestRooms$$/^Alpine$$/^Hog$$/^(SharedMemory|Descriptors)$$' ./supervisor/boot # these take minutes on an emulated arm64: see nightly

faults: guest-programs ## kill everything at every moment, and 50 VMs while they write; half an hour
	OSAURUS_FAULTS=all $(GO) test $(RACE) -v -timeout 60m ./supervisor/e2e

app: ## on a Mac: build bin/osaurus-sandbox, signed so that it may make VMs
	@scripts/on-a-mac app
	MACOSX_DEPLOYMENT_TARGET=13.0 $(MAKE) --no-print-directory build
	SIGN_AS='$(SIGN_AS)' scripts/sign $(PROGRAM)

first-mac: app ## on a Mac: run what only a Mac can, and write a report
	@scripts/first-mac

release-check: ## check the release configuration, workflows and formula
	@scripts/release-check

fuzz: ## run every fuzz target for FUZZTIME (30s)
	GO=$(GO) scripts/fuzz $(FUZZTIME)

bench: setup guest-programs ## run the benchmarks, one package at a time; compare two runs with benchstat
	@mkdir -p .build
	@echo "# $$(git describe --always --dirty), $$(date -u +%F), Linux $$(uname -r), $$(nproc) processors, $$(qemu-system-x86_64 --version | head -1)" | tee .build/bench.txt
	@$(GO) test -p 1 -run '^$$' -bench . -timeout 60m $$(git grep -l '^func Benchmark' -- '*_test.go' | sed 's|^|./|' | xargs -n1 dirname | sort -u) | tee -a .build/bench.txt

generate: ## regenerate what is generated and committed
	$(GO) generate ./...

clean: ## remove what was built, and the downloads and kernels in .build
	rm -rf bin .build
	find guest/embedded/bin -name 'osaurus-*' -delete
