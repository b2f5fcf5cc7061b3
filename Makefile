# Osaurus Sandbox. `make help` lists what there is to do.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build

# Where Go's own archive puts it; scripts/setup looks there too.
export PATH := $(PATH):/usr/local/go/bin

GO           ?= go
STATICCHECK  := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GUEST_ARCHES := amd64 arm64
PROGRAM      := bin/osaurus-sandbox

# All that is compiled for this system is compiled in one of two ways: as the guest
# programs are, without paths and C, or with the race detector, which needs C. Vet and
# staticcheck look at the second, which the tests need anyway: a third way costs minutes
# where Go's cache is empty. On macOS the driver is C.
NO_C = $(if $(filter Linux,$(shell uname)),CGO_ENABLED=0) GOFLAGS="$$($(GO) env GOFLAGS) -trimpath"
RUN  := $(GO) run -trimpath

# SQLite and its library are C that was translated: the detector finds nothing of ours in
# them, and with it in them they take twice as long to compile and to answer.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false

# Staticcheck itself is built without C, and finds all else compiled as the tests have it.
LINT = $(NO_C) $(GO) run -exec 'env CGO_ENABLED=1 "GOFLAGS=$(shell $(GO) env GOFLAGS) $(RACE)"' $(STATICCHECK)

# What make fuzz spends on each target.
FUZZTIME     ?= 30s

# The guest tier are the packages whose tests start machines. They run two
# packages at a time: a guest waits, for its host and for itself, about as much
# as it computes; the longest goes first, so that nothing waits for it at the end. The kernel tier are those that use real kernels
# without our machines. What a package imports tells, so nobody keeps a list.
TIERS = $(shell $(GO) list -f '{{.ImportPath}} {{.Deps}} {{.TestImports}} {{.XTestImports}}' ./... | \
  awk '/osaurus-sandbox\/(internal\/lab|vm\/vmtest)[] ]/ {print (/osaurus-sandbox\/vm\/(qemu|vmtest)[] ]/ ? "guest:" : "kernel:") $$1}')
# Benchmarks alone are vetted with the rest, and not linked.
GUEST_TIER  = $(LONGEST) $(filter-out $(LONGEST) $(BENCHMARKS),$(patsubst guest:%,%,$(filter guest:%,$(TIERS))))
BENCHMARKS  = osaurus-sandbox/bench
LONGEST     = osaurus-sandbox/supervisor/launch
KERNEL_TIER = $(filter-out osaurus-sandbox/internal/lab,$(patsubst kernel:%,%,$(filter kernel:%,$(TIERS))))
APART       = $(BENCHMARKS) osaurus-sandbox/internal/lab osaurus-sandbox/internal/darwincheck $(LOCAL)
UNIT_TIER   = $(filter-out $(GUEST_TIER) $(KERNEL_TIER) $(APART),$(shell $(GO) list ./...))

# Their tests start themselves once or twice for each of a thousand commands, which
# with the race detector in it takes ten times as long; what is concurrent in
# them is package sandbox's, which is raced.
LOCAL = osaurus-sandbox/engine/local osaurus-sandbox/engine/enginetest

# A test that fails is tried once more, alone: guests are emulated here, beside
# each other and a compiler, and a host that does something else for half a minute says
# nothing about the program. It must pass then, and is called unsteady at the
# end, because such a test is to be mended. What lint has vetted is not vetted again.
UNSTEADY := $(CURDIR)/.build/unsteady
GO_TEST  := $(RUN) ./internal/secondtry $(UNSTEADY) -vet=off

# With the stand-in for vz the macOS driver's own code runs on Linux.
STANDIN := GOWORK=$(CURDIR)/vm/vz/standin/go.work

# Who signs the macOS program: "-" is ad hoc, which is enough on this Mac.
SIGN_AS ?= -

# The race detector lets each program that ends wait for a second, in case another goroutine of it
# has still something to show. Tests start this program hundreds of times.
export GORACE := atexit_sleep_ms=20

# A package that runs longer is stuck, also on a machine with much else to do.
UNIT_TIMEOUT  := 20m
GUEST_TIMEOUT := 40m

.PHONY: help setup setup-run build guest-programs mcpb run test tiers quick-lane guest-lane lab lint check-darwin lint-darwin unit kernel-tier guest-tier standin-tier faults gallery app verify-macos release-check fuzz bench generate clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## install what is missing (Debian, Ubuntu), or name it
	@scripts/setup

setup-run: # what testing needs is not asked of those who only want a sandbox
	@scripts/setup run

build: guest-programs ## bin/osaurus-sandbox, with the guest programs in it
	$(NO_C) $(GO) build -o $(PROGRAM) ./cmd/osaurus-sandbox

guest-programs:
	@for arch in $(GUEST_ARCHES); do for program in osaurus-guest osaurus-host; do \
	  echo "building $$program for $$arch guests"; \
	  $(NO_C) CGO_ENABLED=0 GOOS=linux GOARCH=$$arch $(GO) build -buildvcs=false -ldflags='-s -w' \
	    -o guest/embedded/bin/$$program-$$arch ./cmd/$$program || exit 1; \
	done; done

mcpb: build ## bin/osaurus-sandbox.mcpb, for apps that install MCP servers from bundles
	@scripts/mcpb $(PROGRAM) "$$(git describe --tags --always 2>/dev/null | grep -E '^v[0-9]' || echo v0.0.0)" $(PROGRAM).mcpb

run: setup-run build ## have a sandbox running, and look around in it
	@$(PROGRAM) doctor
	@$(PROGRAM) up
	@$(PROGRAM) exec --root -- sh -c '. /etc/os-release; echo "$$PRETTY_NAME, $$(uname -rm)"'
	@$(PROGRAM) status
	@echo
	@echo "The sandbox stays up. To go on: README.md, The first ten minutes. To stop it: $(PROGRAM) down --daemon"

test: setup guest-programs ## lint, unit tests, guest tier; fails if anything is left behind
	@rm -f $(UNSTEADY)
	$(RUN) ./internal/leftovers $(MAKE) --no-print-directory tiers
	@if [ -s $(UNSTEADY) ]; then echo "*** UNSTEADY: failed, and passed at the second try, alone. Mend:"; sed 's/^/***   /' $(UNSTEADY); fi

# Two lanes at once: what boots nothing makes use of the moments in which guests
# wait. Guests go first: their lane is the longer one.
tiers:
	@$(MAKE) --no-print-directory --jobs=2 quick-lane guest-lane

quick-lane: LANE = lint check-darwin unit kernel-tier
quick-lane: NICE = nice
guest-lane: LANE = lab guest-tier standin-tier
quick-lane guest-lane:
	@for tier in $(LANE); do \
	  start=$$SECONDS; \
	  $(NICE) $(MAKE) --no-print-directory $$tier; \
	  echo "== $$tier: $$((SECONDS - start)) s"; \
	done

lint: ## format, vet, staticcheck, order of the house
	@unformatted=$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...)); \
	if [ -n "$$unformatted" ]; then echo "not formatted (run gofmt -w):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet $(RACE) ./...
	$(STANDIN) $(GO) vet $(RACE) -tags vzstandin ./vm/vz ./supervisor/e2e github.com/Code-Hex/vz/v3
	$(LINT) ./...
	$(STANDIN) $(LINT) -tags vzstandin ./vm/vz github.com/Code-Hex/vz/v3
	$(RUN) ./internal/house

unit: ## tests that boot nothing, with the race detector
	$(GO_TEST) $(RACE) -timeout $(UNIT_TIMEOUT) -- $(UNIT_TIER)
	$(NO_C) $(GO_TEST) -timeout $(UNIT_TIMEOUT) -- $(LOCAL)

lab: guest-programs ## the kernels, packs and images that tests use, made once
	$(NO_C) $(GO_TEST) -count=1 -timeout $(GUEST_TIMEOUT) -- ./internal/lab

# With the race detector, to read whole kernels and archives byte by byte takes ten
# times as long; the code is the same that reads small ones.
kernel-tier: ## tests on real kernels and archives, without machines of ours
	$(NO_C) $(GO_TEST) -timeout $(GUEST_TIMEOUT) -- $(KERNEL_TIER)
	$(GO_TEST) $(RACE) -short -timeout $(GUEST_TIMEOUT) -- $(KERNEL_TIER)

guest-tier: ## tests on machines with real kernels, with the race detector
	@ls "$${OSAURUS_ALPINE:-../shared/alpine}"/alpine-minirootfs-*.tar.gz >/dev/null 2>&1 || \
	  echo "*** NO ALPINE ROOT FILE SYSTEMS in $${OSAURUS_ALPINE:-../shared/alpine}: busybox stands in for Alpine where it can, the bake is not tested"
	$(GO_TEST) $(RACE) -p 2 -timeout $(GUEST_TIMEOUT) -- $(GUEST_TIER)

check-darwin: ## types for macOS, on both architectures, without a Mac
	$(RUN) ./internal/darwincheck
	$(NO_C) $(GO_TEST) -- ./internal/darwincheck # which under the race detector takes a minute: it reads types

# It compiles everything once more: minutes, for what types do not tell.
lint-darwin: ## compiler, vet and staticcheck for macOS, without a Mac: before a release
	$(RUN) ./internal/darwincheck tools

standin-tier: ## the macOS driver over a stand-in for vz, with real arm64 kernels
	$(STANDIN) $(GO_TEST) $(RACE) -tags vzstandin -timeout $(GUEST_TIMEOUT) -- ./vm/vz
	$(STANDIN) $(GO_TEST) $(RACE) -tags vzstandin -timeout $(GUEST_TIMEOUT) -run '^TestLife$$' -- ./supervisor/e2e

faults: guest-programs ## every sort of harm at every moment, and 50 VMs killed while they write; half an hour
	OSAURUS_FAULTS=all $(GO) test $(RACE) -v -timeout 60m ./supervisor/e2e

gallery: guest-programs ## plugins with the packages that they download, over an upgrade of the pack; pip and npm from nothing: needs the web, and half an hour
	OSAURUS_GALLERY=all $(GO) test -v -timeout 60m -run '^(TestWholeGallery|TestPackUpgrade)$$' ./cmd/osaurus-sandbox
	OSAURUS_GALLERY=all $(GO) test -v -timeout 60m -run '^TestRooms$$/^Debian$$/^Installs$$/^(Python|Node)$$' ./supervisor/launch

app: ## on a Mac: bin/osaurus-sandbox, signed so that it may make machines
	@scripts/on-a-mac app
	MACOSX_DEPLOYMENT_TARGET=13.0 $(MAKE) --no-print-directory build
	SIGN_AS='$(SIGN_AS)' scripts/sign $(PROGRAM)

verify-macos: app ## on a Mac: all that only a Mac can show, with a report
	@scripts/verify-macos

release-check: ## what a release is made with: configuration, workflows, formula
	@scripts/release-check

fuzz: ## every fuzz target for FUZZTIME (30s); inputs that reach something new go to testdata/fuzz
	$(GO) run ./internal/fuzz -time $(FUZZTIME) ./...

bench: setup guest-programs ## every benchmark, one package at a time, and a table of what is met; bench/results.txt is a run that was kept
	@mkdir -p .build
	@failed=0; { echo "# $$(git describe --always --dirty), $$(date -u +%F), Linux $$(uname -r), $$(nproc) processors, $$(qemu-system-x86_64 --version | head -1)"; \
	  $(GO) test -p 1 -run '^$$' -bench . -timeout 60m $$(git grep -l '^func Benchmark' -- '*_test.go' | sed 's|^|./|' | xargs -n1 dirname | sort -u); } | tee .build/bench.txt || failed=1; \
	  $(GO) run ./internal/targets < .build/bench.txt; exit $$failed

generate: ## what is generated and committed
	$(GO) generate ./...

clean: ## remove what was built; downloads and kernels in .build too
	rm -rf bin .build
	find guest/embedded/bin -name 'osaurus-*' -delete
