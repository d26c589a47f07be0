# The two commands of the README, and a name for each part of them.
#   make demo    detect objects in an image on the simulated NPU; leaves out/detections.png
#   make test    lint, types, warnings, sanitizers and the whole test suite
# Both install what they need into $(VENV) (and, where it is missing, the compiler,
# headers and venv of the system through apt-get) and can be repeated at will.

PYTHON ?= python3
VENV ?= .venv
BIN := $(abspath $(VENV))/bin
WARNINGS := -std=c11 -O3 -ffp-contract=off -Wall -Wextra -Wconversion -Werror
C_FILES = $(shell git ls-files '*.c' '*.h')
# What the installation in $(VENV) is made of. Python files are not: it is an editable one.
SOURCES := pyproject.toml setup.py rknn_cffi_build.py $(shell find csrc -type f)

.PHONY: demo test lint types warnings pytest sanitize sanitize-addresses sanitize-threads \
    sanitize-allocations torture soak bench abi wheels wheel-static \
    fuzz-emulator test-avx512 test-models test-convert test-browser test-arm test-vendor docs clean

demo: $(VENV)/.demo
	$(BIN)/python examples/detect.py examples/models/shapes_rk3588.rknn examples/scenes/scene.png \
	    --library sim --save out/detections.png

test: lint types warnings pytest sanitize

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(C_FILES)

types: $(VENV)/.test
	$(BIN)/mypy
	$(BIN)/mypy tests/typing

warnings: $(VENV)/.test
	tools/warnings.sh $(WARNINGS)

sanitize: sanitize-addresses sanitize-threads sanitize-allocations

sanitize-addresses: $(VENV)/.test
	$(BIN)/python tools/sanitize.py

sanitize-threads sanitize-allocations: sanitize-%: $(VENV)/.test
	$(BIN)/python tools/sanitize.py --$*

pytest: $(VENV)/.test
	$(BIN)/pytest

# What is too long for every change: about 11 minutes of one core.
torture: $(VENV)/.test
	RKNN_TEST_MUTATIONS=100000 $(BIN)/pytest tests/modelfile/test_reader_hostile.py \
	    tests/sim/test_bundle.py
	RKNN_TEST_FAULTS=all $(BIN)/pytest tests/npu/test_fault_matrix.py
	RKNN_TEST_ROUNDS=2000 $(BIN)/pytest tests/npu/test_threads.py
	RKNN_TEST_ROUNDS=400 RKNN_TEST_SEEDS=30 $(BIN)/pytest tests/npu/test_thread_machine.py
	RKNN_TEST_ROUNDS=1000 $(BIN)/python tools/sanitize.py --threads

# 100,000 damaged models on the emulator, under AddressSanitizer: 20 minutes of one core.
# MODELS=folder adds to those of this repository, OPTIONS="--first 100000" goes on,
# OPTIONS="--coverage --count 5000" tells what of the C code they reach.
fuzz-emulator: $(VENV)/.test
	nice -n 10 $(BIN)/python tools/fuzz_emulator.py $(MODELS) $(OPTIONS)

# The variants for AVX-512 where the CPU has AVX2 alone: `tools/avx512.h` has the instructions in C.
test-avx512: $(VENV)/.test
	$(BIN)/python tools/sanitize.py --avx512

# Every flow of the API 5,000 times loaded and 200,000 times run; an hour, a table as it goes.
soak: $(VENV)/.test
	nice -n 10 $(BIN)/python tools/soak.py $(OPTIONS)

# Small networks of every family through the vendor's true toolkit, which is installed into the
# user's cache: 600 MB from the package index, once.
test-convert: $(VENV)/.test
	$(BIN)/python tools/try_convert.py

bench: $(VENV)/.test
	for each in benchmarks/bench_*.py; do $(BIN)/python $$each || exit 1; done

abi: $(VENV)/.test
	$(BIN)/python tools/abi.py $(HEADER)

# Wheels of every platform and the sdist, in dist/; TARGETS="--target manylinux-armv7l" for one.
wheels: .cache/wheels/.ready
	.cache/wheels/bin/python tools/wheels/build.py dist $(TARGETS)

# A wheel with a vendor's archive inside, in dist/static/, to be kept to yourself:
#   make wheel-static RKNN_STATIC_LIBRARY=/path/librknnmrt.a TARGETS="--target manylinux-armv7l"
wheel-static: .cache/wheels/.ready
	.cache/wheels/bin/python tools/wheels/build.py dist/static $(TARGETS) \
	    --static-library "$(RKNN_STATIC_LIBRARY)"

# What was recorded of a folder of further models; tests/recorded.py says how it is kept.
test-models: $(VENV)/.test
	@test -d "$(MODELS)" || { echo "MODELS: expected a folder, got '$(MODELS)'" >&2; exit 2; }
	RKNN_TEST_MODELS="$(MODELS)" $(BIN)/pytest tests/modelfile/test_reader.py \
	    tests/sim/test_vendor_answers.py tests/sim/test_emulator_recorded.py

# The page of `rknn-runtime serve` in Chromium.
test-browser: $(VENV)/.test
	tools/system.sh browser $(PYTHON)
	$(BIN)/python -m pip install --quiet selenium
	$(BIN)/pytest tests/serve/browser.py

# The suite on the wheels in dist/, in Debian 11 to 13 on arm64, armhf and amd64, under
# emulation. Needs root. ROOTS="bookworm-armhf trixie-arm64" for some of them, OPTIONS=--quick
# for the tests of what depends on the CPU.
test-arm:
	tools/system.sh arm $(PYTHON)
	$(PYTHON) tools/wheels/roots.py dist $(ROOTS) $(OPTIONS)

# The package on the vendor's own runtimes, emulated, with a stand-in for the NPU's device that
# executes the submitted commands: every way of the API against the simulated runtime. Needs
# root; 12 minutes of two cores for 130 models. Each runs on the library that its container is for:
#   make test-vendor MODELS=folder LIBRARIES="/path/librknnrt.so /path/librknnmrt.a"
test-vendor: .cache/wheels/.ready
	tools/system.sh arm $(PYTHON)
	.cache/wheels/bin/python tools/wheels/vendor.py $(MODELS) \
	    $(addprefix --library ,$(LIBRARIES))

# The site of the documentation, in out/site; a warning is an error.
docs: .cache/site/.ready
	.cache/site/bin/python -m mkdocs build --strict

# An environment of its own for what stands in tools/NAME.
.cache/%/.ready: tools/%/requirements.txt
	tools/system.sh demo $(PYTHON)
	$(PYTHON) -m venv .cache/$*
	.cache/$*/bin/python -m pip install --quiet --upgrade pip
	.cache/$*/bin/python -m pip install --quiet --requirement $<
	touch $@

# An editable installation, with the compiled libraries in the checkout itself: a Python that
# is started there imports the package of the checkout, whatever else is installed. That the
# wheels have all that they need is the matter of tools/wheels. Setuptools warns of just that.
$(VENV)/.demo: $(SOURCES)
	tools/system.sh demo $(PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable '.[image]'
	touch $@

$(VENV)/.test: $(VENV)/.demo
	tools/system.sh test $(PYTHON)
	$(BIN)/python -m pip install --quiet 'rknn-runtime[sim,image,test,lint]'  # adds to it
	touch $@

clean:
	rm -rf build out $(VENV) *.egg-info
	rm -f rknn_runtime/*.so rknn_runtime/sim/*.so
