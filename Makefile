# SPDX-License-Identifier: Apache-2.0
# `make` lists the targets. Each target installs the Debian packages that it needs and that are
# missing (cmake/packages.txt), with sudo unless run by root.
PYTHON ?= /usr/bin/python3
BUILD := build
RESULTS := $(BUILD)/results
NEEDS := cmake/packages.sh
CONFIGURE := cmake --log-level=WARNING --preset

.DEFAULT_GOAL := help
# Every target that has a description.
.PHONY: help $(shell sed -nE 's/^([a-z-]+):.*\#\#.*/\1/p' $(MAKEFILE_LIST))

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build everything, optimised, into build/
	@$(NEEDS) build
	@$(CONFIGURE) release >/dev/null
	@cmake --build $(BUILD) -- --quiet

programs: ## build the programs and libraries alone, without tests and examples, into build/
	@$(NEEDS) build
	@$(CONFIGURE) release >/dev/null
	@cmake --build $(BUILD) --target programs -- --quiet

nic: ## build libverbena-nic.so alone, into build-nic/; it needs no library but the headers of rdma-core
	@$(NEEDS) nic
	@$(CONFIGURE) nic >/dev/null
	@cmake --build build-nic -- --quiet

packages: ## build the Debian packages, with man pages and completion, into build-packages/debian/
	@$(NEEDS) build packages
	@$(CONFIGURE) packages >/dev/null
	@cmake --build build-packages --target programs documentation -- --quiet
	@cd build-packages && rm -rf debian && cpack -G DEB >cpack.log 2>&1 || { tail -n 40 cpack.log >&2; exit 1; }
	@ls -1 build-packages/debian/*.deb

packages-test: packages ## lint, install, use, upgrade and purge the packages in a bare Debian 12 (chroot)
	@$(NEEDS) newcomer
	@tests/install/trial build-packages

dist: ## write the source tarball build-dist/verbena-VERSION.tar.xz of the commit; two of one commit are equal
	@$(NEEDS) dist
	@cmake/dist.sh build-dist

dist-test: dist ## build all of the source tarball without a network, and run the unit tests of the NIC there
	@$(NEEDS) build wheel
	@tests/release/dist_trial build-dist/verbena-$$(cat VERSION).tar.xz

rpm: dist ## build the RPM packages from the source tarball, into build-rpm/RPMS
	@$(NEEDS) build rpm
	@deploy/rpm/build.sh build-dist/verbena-$$(cat VERSION).tar.xz build-rpm

rpm-test: rpm ## install the RPM packages into an empty root, use them there, and remove them
	@$(NEEDS) test
	@tests/release/rpm_trial build-rpm

release-check: ## run the checklist of docs/releasing.md (hours)
	@tests/release/check.py

wheel: ## build the Python wheel (clients of RPC and the store, report) into build-wheel/
	@$(NEEDS) wheel
	@$(PYTHON) -B python/wheel.py --out build-wheel

wheel-test: build ## install the wheel with its dependencies from PyPI in a new environment, and test it there
	@$(NEEDS) wheel
	@tests/wheel/fresh $(BUILD) $(PYTHON)

container: programs ## build a container image of the NIC and the tools, from scratch, with buildah or podman
	@$(NEEDS) container
	@deploy/container/build $(BUILD)

ci-test: packages container ## run the files of examples/ci in a bare Debian 12, and containers without root (podman)
	@$(NEEDS) newcomer test
	@tests/ci/trial build-packages $(BUILD)/container.tar

test: build ## run all tests; the last line counts passed, failed and skipped
	@$(NEEDS) test bench inject ecosystem
	@$(PYTHON) tests/run.py --build $(BUILD)

slow: build ## tests that take minutes: published command lines with 20,000 and 100,000 clients, 10,000 RPC connections, full queues
	@$(NEEDS) test
	@VERBENA_BUILD=$(CURDIR)/$(BUILD) timeout 2400 \
		$(PYTHON) -m pytest -q --no-header --tb=short tests/tools/slow_scale.py
	@VERBENA_BUILD=$(CURDIR)/$(BUILD) VERBENA_REFILL_SECONDS=60 timeout 900 \
		$(PYTHON) -m pytest -q --no-header --tb=short tests/life/test_refill.py
	@VERBENA_BUILD=$(CURDIR)/$(BUILD) VERBENA_KV_MEMORY_SECONDS=600 timeout 900 \
		$(PYTHON) -m pytest -q --no-header --tb=short tests/tools/test_kv_memory.py -k mixed_sizes
	@VERBENA_BUILD=$(CURDIR)/$(BUILD) VERBENA_KV_ROUNDS=100 timeout 5400 \
		$(PYTHON) -m pytest -q --no-header --tb=short tests/tools/test_kv_older.py -k no_key_has_an_older_value
	@VERBENA_TEST_SEEDS=5000 timeout 3000 \
		$(BUILD)/bench/lib_kv_state_test --gtest_filter='OwnershipSim.*' --gtest_brief=1
	@VERBENA_TEST_STEPS=100000000 timeout 3000 \
		$(BUILD)/bench/lib_kv_state_test --gtest_filter='ArenaSteps.*' --gtest_brief=1
	@VERBENA_TEST_CONNECTIONS=10000 timeout 600 \
		$(BUILD)/bench/lib_rpc_test --gtest_filter='ServerMemory.AThousand*' --gtest_brief=1

inject: build ## make each system call of the NIC fail in turn (strace), under pairs of programs; takes an hour
	@$(NEEDS) inject
	@$(PYTHON) tests/inject/run.py --build $(BUILD) --json $(BUILD)/inject.json

litmus: build ## run the litmus tests of docs/memory-model.md under the adversary, ROUNDS (10000) a model; takes half an hour
	@VERBENA_TEST_ROUNDS=$${ROUNDS:-10000} $(BUILD)/nic_sim_test --gtest_filter='*Litmus*' --gtest_brief=1
	@VERBENA_BUILD=$(CURDIR)/$(BUILD) $(PYTHON) -B tests/litmus/run.py --rounds $${ROUNDS:-10000}

bench: programs ## measure all four systems quickly (minutes); tables, plots and a page in build/results/
	@$(NEEDS) bench
	@$(PYTHON) -B bench/all/run $(BUILD)

bench-full: programs ## compare RC with UD with the published parameters
	@$(NEEDS) bench
	@$(MAKE) --no-print-directory rcud ITERS='--iters 200000 --warmup 20000'

.PHONY: rcud
rcud:
	@mkdir -p $(RESULTS)
	@$(BUILD)/verbena bench rcud $(ITERS) --csv $(RESULTS)/rcud.csv --json $(RESULTS)/rcud.json --md $(RESULTS)/rcud.md
	@$(BUILD)/verbena report $(RESULTS)/rcud.json -o $(RESULTS)/rcud.html --plots $(RESULTS)
	@cat $(RESULTS)/rcud.md
	@echo "Tables, plots and the page: $(RESULTS)/rcud.{md,csv,json,html}"

bench-peers: build ## measure our NIC, UCX, iperf3 and the machine in turn and print the ratios
	@$(NEEDS) peers
	@$(PYTHON) bench/peers/run $(BUILD)

results: programs ## measure all that the published claims need (long, resumable) and write docs/results/<machine class>/
	@$(NEEDS) bench
	@$(PYTHON) -B bench/results/run $(BUILD)

sim: build ## run the simulator's scenarios, then random traffic by SEEDS (1:500), with and without loss
	@$(BUILD)/nic_sim_test --gtest_brief=1
	@$(BUILD)/verbena-sim --seeds $${SEEDS:-1:500} & first=$$!; \
		$(BUILD)/verbena-sim --seeds $${SEEDS:-1:500} --lossless; second=$$?; wait $$first && exit $$second

fuzz: ## run each fuzzer for FUZZ_SECONDS (20)
	@$(NEEDS) build fuzz
	@$(CONFIGURE) fuzz >/dev/null
	@cmake --build build-fuzz --target fuzzers -- --quiet
	@fuzz/run build-fuzz $${FUZZ_SECONDS:-20}

fuzz-corpus: fuzz ## replace fuzz/corpus by the fewest inputs that reach all the code that make fuzz has reached
	@fuzz/run build-fuzz --minimize

asan: ## run the unit tests under the address and undefined-behaviour sanitizers
	@$(NEEDS) build
	@$(CONFIGURE) asan >/dev/null
	@cmake --build build-asan -- --quiet
	@UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ASAN_OPTIONS=verify_asan_link_order=0 \
		ctest --test-dir build-asan --output-on-failure --no-tests=error -j $$(nproc)

# The tests of tools/ are left out: the sanitizer's runtime and the NIC both replace sigaction() in
# the programs that they start.
tsan: ## run the unit tests under the thread sanitizer (all but those of tools/)
	@$(NEEDS) build
	@$(CONFIGURE) tsan >/dev/null
	@cmake --build build-tsan --target floor-tests -- --quiet
	@setarch -R ctest --test-dir build-tsan -E '^tools[:_]' --output-on-failure --no-tests=error -j $$(nproc)

lint: ## run clang-format, clang-tidy, ruff and shellcheck
	@$(NEEDS) build lint
	@$(CONFIGURE) dev >/dev/null
	@tests/lint.sh build-dev

same-code: ## check that the working tree compiles to the same code as commit BASE (HEAD)
	@$(NEEDS) build test
	@$(PYTHON) tests/lint/same_code.py $${BASE:-HEAD}

interop: build ## test against the kernel's Soft-RoCE in a virtual machine
	@$(NEEDS) interop
	@tests/interop/run $(BUILD)

hostile: build ## the attacks of tests/hostile in their long form (minutes): every byte flipped, a million sources
	@$(NEEDS) test
	@VERBENA_BUILD=$(CURDIR)/$(BUILD) VERBENA_HOSTILE=long timeout 3000 \
		$(PYTHON) -B -m pytest -q --no-header --tb=short tests/hostile

mutants: ## change bench, transport and channel in one place at a time, and see whether a test fails
	@$(NEEDS) build test
	@$(PYTHON) -B tests/mutants/run.py

nightly: ## the proof that takes hours, step by step; a second run goes on where the first one stopped
	@$(PYTHON) -B tests/nightly/run.py nightly

weekly: ## fuzz for ten minutes a target, simulate 200,000 seeds
	@$(PYTHON) -B tests/nightly/run.py weekly

coverage: ## run all tests with counters in the code and write pages in build-coverage/html (clang, llvm-cov)
	@$(NEEDS) build test bench inject ecosystem coverage
	@$(CONFIGURE) coverage >/dev/null
	@cmake --build build-coverage -- --quiet
	@$(PYTHON) -B tests/coverage/run.py build-coverage

ecosystem: build ## run other people's programs on the NIC (minutes) and write docs/programs.md
	@$(NEEDS) test ecosystem ecosystem-large
	@mkdir -p $(RESULTS)
	@$(PYTHON) -B tests/ecosystem/run --json $(RESULTS)/ecosystem.json --page

newcomer: ## run both commands of the README on a bare Debian 12, in a chroot
	@$(NEEDS) newcomer
	@tests/newcomer/run

clean: ## remove the build folders
	rm -rf build build-*
