# A front for CMake.
#   make            build into build/
#   make demo       install what is missing, build, filter a real picture, say how fast
#   make test       install what is missing, build, pass the tests
#   make check      everything that CI checks beyond the tests: style, imports, sanitizers, fuzz corpora, documentation
#   make campaign   random problems by the million at every instruction set and under sanitizers (COUNT=1000000 SEED=...)
#   make bench      compare with the peers from PyPI in a private environment (SUITE=filters-cpu)
#   make gpu-test   hold the CUDA solvers against the reference, on this machine's GPU
#   make gpu-bench  compare with NPP, CuPy and cuDNN there, filters and layers; JSON lines into bench/results/ (MACHINE=h200)
#   make quick      build what changed and run the tests of the folders that it is in
#   make wheel      the Python package with the library inside: dist/faltung-*.whl
#   make wheel-aarch64  the same for aarch64, cross-built and tested under qemu
#   make install    PREFIX=/usr/local
#   make help       this list
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
SUITE ?= filters-cpu
MACHINE ?= gpu
RECORD = bench/results/$(MACHINE)

all: configure
	@cmake --build $(BUILD) -j $(JOBS)

help:
	@sed -n 's/^#   make/make/p' Makefile

# Always: a library installed since the last time is found now.
configure:
	@cmake --preset release -B $(BUILD)

demo:
	@ci/setup build
	@$(MAKE) --no-print-directory all
	@examples/demo $(BUILD)

test:
	@ci/setup test
	@$(MAKE) --no-print-directory all
	@ci/check-tests $(BUILD)
	@cd $(BUILD) && ctest --output-on-failure --no-tests=error -j $(JOBS)

quick:
	@ci/quick $(BUILD)

check:
	@ci/setup check
	@ci/check

campaign:
	@ci/campaign

bench:
	@ci/setup bench
	@$(MAKE) --no-print-directory all
	@bench/setup || echo "Going on without peers."
	@$(BUILD)/faltung bench $(SUITE) --peers

gpu-test: all
	@cmake --build $(BUILD) --target test_gpu chains contract in_place nonfinite boxes far transfer
	@tests/gpu/run $(BUILD)

gpu-bench: all
	@mkdir -p bench/results
	@cmake --build $(BUILD) --target transfer latency
	@$(BUILD)/latency | tee $(RECORD)-latency.jsonl
	@$(BUILD)/transfer | tee $(RECORD)-transfer.jsonl
	@$(BUILD)/faltung bench filters-gpu --device cuda --peers --seconds 0.3 --json \
	  --html $(RECORD)-filters-gpu.html >$(RECORD)-filters-gpu.jsonl
	@$(BUILD)/faltung bench layers-gpu --device cuda --peers --seconds 0.1 --json \
	  --html $(RECORD)-layers-gpu.html >$(RECORD)-layers-gpu.jsonl
	@bench/table $(RECORD)-filters-gpu.jsonl
	@bench/table $(RECORD)-layers-gpu.jsonl
	@bench/table --suites $(RECORD)-layers-gpu.jsonl

wheel:
	@ci/setup wheel
	@$(MAKE) --no-print-directory all
	@ci/wheel $(BUILD)

wheel-aarch64:
	@ci/setup wheel
	@cmake --preset aarch64
	@cmake --build build-aarch64 -j $(JOBS) --target faltung_shared faltung_cli
	@ci/check-wheel-aarch64

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf $(BUILD) build-*

.PHONY: all help quick configure demo test check campaign bench gpu-test gpu-bench wheel wheel-aarch64 install clean
