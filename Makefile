# The commands of this project. Each installs what it needs (Debian packages as root or with sudo, npm packages by
# lockfile) and is quick when there is nothing to do.

.DEFAULT_GOAL := help
.PHONY: help deps build run test lint format bench compare scaling esync time-to-accuracy product asan tsan fuzz \
  docker-test gpu-kit gpu-test clean

JOBS ?= $(shell scripts/jobs.sh)
LLVM = $(shell . scripts/release.sh && echo $$llvm)
SOURCES = git ls-files '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.h'

# CMake's own account of a configure run is worth reading only when it fails.
configure = mkdir -p build && { cmake --preset $(1) $(2) > build/$(1).log 2>&1 || { cat build/$(1).log; exit 1; }; }

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

deps: ## install what building and testing needs
	@scripts/deps.sh build dashboard test
	@scripts/dashboard.sh modules

build: ## release build of the programs: build/release/bin/weir and weir-worker
	@scripts/deps.sh build dashboard
	@scripts/dashboard.sh build
	@$(call configure,release)
	@cmake --build build/release -j $(JOBS) --target weir weir-worker

run: build ## a cluster, the example job in the browser, its results
	@python3 scripts/demo.py

test: ## build and run every test: C++, system, dashboard, browser
	@scripts/deps.sh build dashboard test
	@scripts/dashboard.sh build
	@$(call configure,release)
	@cmake --build build/release -j $(JOBS)
	@python3 scripts/test.py

# Without precompiled headers: clang-tidy would read all of LibTorch for every file, which takes two to four times as
# long. The analyzer follows no calls of methods (ipa=basic-inlining): the frame of an Asio coroutine looks undefined to
# it.
# `weir` embeds the catalog that weir-worker prints. Lint does not build that program: any text does for the sources.
catalog_text = build/lint/generated/cli/catalog_text.hpp

lint: ## clang-format, tests/tidy, headers alone, clang-tidy, TypeScript
	@scripts/deps.sh build dashboard test lint
	@scripts/dashboard.sh build
	@$(call configure,lint)
	$(SOURCES) | xargs clang-format-$(LLVM) --dry-run -Werror
	python3 tests/tidy/tidy.py
	cmake --build build/lint -j $(JOBS) --target headers generated
	@[ -e $(catalog_text) ] || { mkdir -p $(dir $(catalog_text)) && \
	  cmake -DINPUT=/dev/null -DOUTPUT=$(catalog_text) -DNAMESPACE=weir::cli -DNAME=catalog_text \
	    -P cmake/embed_text.cmake; }
	$(SOURCES) | grep '[.]cpp$$' | grep -v '^tests/' | \
	  xargs -n 1 -P $(JOBS) clang-tidy-$(LLVM) -p build/lint --quiet \
	  --extra-arg-before=-include --extra-arg-before="$(CURDIR)/cmake/clang_libtorch.h" \
	  --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=ipa=basic-inlining
	cd dashboard && node_modules/.bin/tsc --noEmit

format: ## rewrite the C++ sources in the project's format
	@scripts/deps.sh lint
	$(SOURCES) | xargs clang-format-$(LLVM) -i

bench: build ## benchmarks of actors, exchange, compressors and training, as JSON lines
	@for bench in actors exchange compressors train; do build/release/bin/weir bench $$bench --json || exit 1; done

compare: build ## train with every compressor and rewrite docs/comparison.md (hours); ARGS="--only dgc --minutes 60"
	@python3 bench/compare.py $(ARGS)

scaling: build ## simulate up to 1,024 workers and rewrite docs/scaling.md and its plot; ARGS="--keep-costs"
	@python3 bench/scaling.py $(ARGS)

esync: build ## ESync's experiment, workers of different speed: rewrites docs/esync.md and its plots (an hour)
	@python3 bench/esync.py $(ARGS)

time-to-accuracy: build ## slow links, beside PyTorch DDP: rewrites docs/time_to_accuracy.md and its plot (hours; root)
	@python3 bench/time_to_accuracy.py $(ARGS)

product: ## train ten steps in every combination of mode, topology, compressor and memory that `validate` lets through
	@scripts/deps.sh build dashboard test
	@scripts/dashboard.sh build
	@$(call configure,release)
	@cmake --build build/release -j $(JOBS) --target product_test
	WEIR_WHOLE_PRODUCT=1 OPENBLAS_NUM_THREADS=1 build/release/tests/product_test

asan: ## unit and contract tests under AddressSanitizer and UBSan
	@scripts/deps.sh build dashboard test
	@scripts/dashboard.sh build
	@$(call configure,asan)
	@cmake --build build/asan -j $(JOBS)
	ctest --preset asan -j $(JOBS)

tsan: ## unit and contract tests under ThreadSanitizer
	@scripts/deps.sh build dashboard test
	@scripts/dashboard.sh build
	@$(call configure,tsan)
	@cmake --build build/tsan -j $(JOBS)
	ctest --preset tsan -j $(JOBS)

FUZZ_SECONDS ?= 60
fuzz: ## every fuzz target for FUZZ_SECONDS, from its corpus
	@scripts/deps.sh build fuzz
	@$(call configure,fuzz,-DCMAKE_C_COMPILER=clang-$(LLVM) -DCMAKE_CXX_COMPILER=clang++-$(LLVM))
	@cmake --build build/fuzz -j $(JOBS) --target fuzz_targets
	@tests/fuzz/run.sh build/fuzz/fuzz $(FUZZ_SECONDS)

docker-test: ## containers for real: head and two nodes, a job, a killed node
	@scripts/deps.sh docker
	@python3 docker/test.py

gpu-kit: ## pack what gpu-test needs, for a machine without network: build/gpu-kit
	@scripts/deps.sh build
	@python3 scripts/gpu_kit.py

gpu-test: ## everything that needs a GPU, on one: builds without network or packages, ten minutes
	@python3 scripts/gpu_test.py $(ARGS)

clean: ## remove what was built
	rm -rf build dashboard/dist dashboard/node_modules
