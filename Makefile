# Each target does all the set-up that it needs; `make train` and `make test` work as the first command after a clone.
#   make train [DATA=DIR] [SET="key=value ..."] [RANKS=2] [ARGS="--resume ..."]
#   make test [PRESET=release|dev|asan|tsan|audit] [MPI=openmpi|mpich] [DEVICE=cuda] [ONLY=regex]
PRESET ?= release
MPI ?=
# For what is about devices, the ones that can be had.
DEVICE ?= $(if $(filter %-device,$(MAKECMDGOALS)),cuda)
RANKS ?= 2
FUZZ_SECONDS ?= 20
VARIANT := $(PRESET)$(if $(MPI),-$(MPI))$(if $(DEVICE),-$(DEVICE))
BUILD := build/$(VARIANT)
JOBS := $(shell env -u OMP_NUM_THREADS nproc)  # which would otherwise hide cores

# No threads inside a rank; $(BUILD)/mpirun knows what else MPI's launcher must be told.
export OMP_NUM_THREADS ?= 1

.PHONY: help train test accept bench test-device bench-device fuzz lint format docs install clean

help:
	@echo "make train     train LeNet on Fashion-MNIST on two ranks"
	@echo "make test      build and run all tests            (PRESET=asan, tsan, audit; MPI=mpich; DEVICE=cuda; ONLY=regex)"
	@echo "make accept    the long acceptance runs           (ONLY=module)"
	@echo "make bench     benchmarks into build/bench.jsonl  (ONLY=module)"
	@echo "make test-device, make bench-device   on a GPU: tests and benchmarks of devices, into build/device (DEVICE=cuda)"
	@echo "make fuzz      every parser, for FUZZ_SECONDS=20 each (ONLY=target)"
	@echo "make lint      formatting, clang-tidy, headers    (SINCE=commit); make format rewrites the sources"
	@echo "make docs      the reference, in build/docs/html"
	@echo "make install   PREFIX=DIR"

train:
	@scripts/setup.sh build $(MPI) $(DEVICE)
	@scripts/build.sh $(VARIANT) torchweave
	@$(BUILD)/mpirun -n $(RANKS) $(BUILD)/bin/torchweave train configs/lenet_fashion_mnist.toml $(if $(DEVICE),--device $(DEVICE)) $(if $(DATA),--data $(DATA)) $(foreach s,$(SET),--set $(s)) $(ARGS)

test:
	@scripts/setup.sh build test $(MPI) $(DEVICE)
	@scripts/build.sh $(VARIANT) $(if $(filter tsan,$(PRESET)),pure_tests,all) -DTW_BUILD_TESTS=ON -DTW_BUILD_EXAMPLES=ON -DTW_BUILD_BENCHMARKS=ON
	@scripts/test.sh $(BUILD) $(JOBS) '$(ONLY)' $(if $(filter tsan,$(PRESET)),-L pure)

accept:
	@scripts/setup.sh build test $(MPI) $(DEVICE)
	@scripts/build.sh $(VARIANT) all -DTW_BUILD_TESTS=ON -DTW_BUILD_EXAMPLES=ON
	@scripts/build.sh $(VARIANT) accept_programs
	@scripts/accept.sh $(BUILD) $(ONLY)

bench:
	@scripts/setup.sh build
	@scripts/build.sh release benchmarks -DTW_BUILD_BENCHMARKS=ON
	@scripts/bench.sh build/release $(ONLY)

device := -DTW_BUILD_TESTS=ON -DTW_BUILD_BENCHMARKS=ON

test-device:
	@scripts/setup.sh build test $(MPI) $(DEVICE)
	@scripts/build.sh $(VARIANT) probe_device $(device) >/dev/null
	@scripts/device/machine.sh $(BUILD) $(DEVICE) >/dev/null
	@scripts/build.sh $(VARIANT) device_tests $(device)
	@scripts/device/test.sh $(BUILD) build/device $(DEVICE)

bench-device:
	@scripts/setup.sh build test $(MPI) $(DEVICE)
	@scripts/build.sh $(VARIANT) probe_device $(device) >/dev/null
	@scripts/device/machine.sh $(BUILD) $(DEVICE) >/dev/null
	@scripts/build.sh $(VARIANT) bench_device $(device)
	@scripts/device/bench.sh $(BUILD) build/device $(DEVICE)

fuzz:
	@scripts/setup.sh build fuzz
	@scripts/build.sh fuzz fuzz_targets
	@scripts/fuzz.sh build/fuzz $(FUZZ_SECONDS) $(ONLY)

lint:
	@scripts/setup.sh build test lint
	@scripts/lint.sh $(SINCE)

format:
	@scripts/setup.sh build lint
	@git ls-files '*.cpp' '*.hpp' | xargs clang-format-19 -i

docs:
	@scripts/setup.sh build docs
	@scripts/build.sh release docs

install:
	@test -n "$(PREFIX)" || { echo "make install PREFIX=DIR"; exit 2; }
	@scripts/setup.sh build $(MPI) $(DEVICE)
	@scripts/build.sh $(VARIANT) all
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean:
	rm -rf build/release build/dev build/asan build/tsan build/audit build/tidy build/coverage build/fuzz build/*-openmpi build/*-mpich build/*-cuda build/device
