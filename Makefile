# The two commands of the README, and the parts of what CI runs.
#   make demo     detect objects in an image on the simulated NPU; leaves out/detections.png
#   make test     the tests of the package on two cores: about 5 minutes from a fresh clone
#   make check    all that must hold: lint, types, warnings, slow tests, sanitizers
#   make torture  what takes an hour
# demo, test and check install what they need into $(VENV) and, through apt-get, missing
# system packages. They can be repeated at will.

PYTHON ?= python3
VENV ?= .venv
BIN := $(abspath $(VENV))/bin
# Python compiles what is imported, a small part of what pip installs, when it is first imported.
export PIP_COMPILE := 0
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# The tests start hundreds of processes, each of which would compile the package and NumPy anew.
unexport PYTHONDONTWRITEBYTECODE
WARNINGS := -std=c11 -O3 -ffp-contract=off -Wall -Wextra -Wconversion -Werror
C_FILES = $(shell git ls-files '*.c' '*.h')
# What the installation in $(VENV) is made of. Python files are not: it is an editable one.
SOURCES := pyproject.toml setup.py rknn_cffi_build.py $(shell find csrc -type f)

.PHONY: demo test check lint types warnings slow sanitize-addresses sanitize-threads \
    sanitize-allocations torture soak bench abi wheels wheel-static \
    fuzz-emulator generate test-models test-convert test-doctor test-foreign test-browser test-arm \
    test-vendor docs docs-version clean

demo: $(VENV)/.demo
	$(BIN)/python examples/detect.py examples/models/shapes_rk3588.rknn examples/scenes/scene.png \
	    --library sim --save out/detections.png

test: $(VENV)/.test
	$(BIN)/pytest -n auto -m "not slow"

check: lint types warnings slow sanitize-addresses sanitize-threads sanitize-allocations

lint: $(VENV)/.check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(C_FILES)

types: $(VENV)/.check
	$(BIN)/mypy
	$(BIN)/mypy tests/typing
	$(BIN)/basedpyright

warnings: $(VENV)/.check
	tools/warnings.sh $(WARNINGS)

# Tests that compile, install, or start many processes; `make test` leaves them out.
slow: $(VENV)/.check
	$(BIN)/pytest -n auto -m slow

sanitize-addresses: $(VENV)/.check
	$(BIN)/python tools/sanitize.py

sanitize-threads sanitize-allocations: sanitize-%: $(VENV)/.check
	$(BIN)/python tools/sanitize.py --$*

torture: $(VENV)/.check
	RKNN_TEST_MUTATIONS=100000 $(BIN)/pytest tests/modelfile/test_reader_hostile.py \
	    tests/sim/test_bundle.py
	RKNN_TEST_FAULTS=all $(BIN)/pytest tests/npu/test_fault_matrix.py
	RKNN_TEST_ROUNDS=2000 $(BIN)/pytest tests/npu/test_threads.py
	RKNN_TEST_ROUNDS=400 RKNN_TEST_SEEDS=30 $(BIN)/pytest tests/npu/test_thread_machine.py
	RKNN_TEST_ROUNDS=1000 $(BIN)/python tools/sanitize.py --threads

# 100,000 damaged models on the emulator under AddressSanitizer: 20 minutes of one core.
# MODELS=folder adds models, OPTIONS="--first 100000" continues an earlier run,
# OPTIONS="--coverage --count 5000" reports how much of the C code the mutants reach,
# OPTIONS="--driver rocket" runs them on the open runtime.
fuzz-emulator: $(VENV)/.check
	nice -n 10 $(BIN)/python tools/fuzz_emulator.py $(MODELS) $(OPTIONS)

# Every flow of the API, loaded 5,000 times and run 200,000 times: an hour, a table as it goes.
soak: $(VENV)/.check
	nice -n 10 $(BIN)/python tools/soak.py $(OPTIONS)

# Converts small networks of every family with the vendor's toolkit, which is installed once
# into the user's cache (600 MB from the package index), and climbs with it towards a target.
test-convert: $(VENV)/.check
	$(BIN)/python tools/try_convert.py
	$(BIN)/pytest tests/conversion/test_ladder.py -m slow

# Plants twelve mistakes in each of the example networks, as people make them when they convert and
# use one, and counts those that the doctor names first.
test-doctor: $(VENV)/.check
	$(BIN)/python tools/try_doctor.py $(OPTIONS)

# Runs programs of other projects, unchanged, and compares what they find with our own classes.
# PROGRAMS=folder holds their checkouts as OWNER/NAME; those that are not there are left out. Those
# in C++ and Go need g++, OpenCV's headers and go.
test-foreign: $(VENV)/.check
	@test -d "$(PROGRAMS)" || { echo "PROGRAMS: expected a folder, got '$(PROGRAMS)'" >&2; exit 2; }
	$(BIN)/python -m pip install --quiet opencv-python-headless orjson pydantic requests torch \
	    peewee ruamel.yaml unidecode pyzmq torchvision ultralytics matplotlib onnx pycocotools \
	    pyclipper scipy shapely six soundfile aiocache fastapi gunicorn httpx huggingface-hub \
	    insightface onnxruntime pydantic-settings python-multipart rapidocr rich tokenizers uvicorn
	$(BIN)/python tools/try_foreign "$(PROGRAMS)" $(OPTIONS)

# Generates small networks, converts them with the vendor's toolkit and judges the emulator by them:
#   make generate OPTIONS="--seed 7 --count 20 --out results.jsonl"
generate: $(VENV)/.check
	nice $(BIN)/python tools/generate_networks $(OPTIONS)

bench: $(VENV)/.test
	for each in benchmarks/bench_*.py; do $(BIN)/python $$each || exit 1; done

abi: $(VENV)/.test
	$(BIN)/python tools/abi.py $(HEADER)

# Wheels of every platform and the sdist, in dist/; TARGETS="--target manylinux-armv7l" for one.
wheels: .cache/wheels/.ready
	.cache/wheels/bin/python tools/wheels/build.py dist $(TARGETS)

# A wheel with a vendor's archive inside, in dist/static/; do not publish it:
#   make wheel-static RKNN_STATIC_LIBRARY=/path/librknnmrt.a TARGETS="--target manylinux-armv7l"
wheel-static: .cache/wheels/.ready
	.cache/wheels/bin/python tools/wheels/build.py dist/static $(TARGETS) \
	    --static-library "$(RKNN_STATIC_LIBRARY)"

# Compares the simulated NPU with recordings of further models in MODELS=folder, and reads a
# detector of the vendor's zoo if it is there; tests/recorded.py describes the files.
test-models: $(VENV)/.test
	@test -d "$(MODELS)" || { echo "MODELS: expected a folder, got '$(MODELS)'" >&2; exit 2; }
	RKNN_TEST_MODELS="$(MODELS)" $(BIN)/pytest tests/modelfile/test_reader.py \
	    tests/sim/test_vendor_answers.py tests/sim/test_emulator_recorded.py \
	    tests/conversion/test_readings.py

# The page of `rknn-runtime serve` in Chromium.
test-browser: $(VENV)/.test
	tools/system.sh browser $(PYTHON)
	$(BIN)/python -m pip install --quiet selenium
	$(BIN)/pytest tests/serve/browser.py

# Runs the suite on the wheels in dist/, in Debian 11 to 13 on arm64, armhf and amd64 under
# emulation. Needs root. ROOTS="bookworm-armhf trixie-arm64" selects systems, OPTIONS=--quick
# only the tests that depend on the CPU.
test-arm:
	tools/system.sh arm $(PYTHON)
	$(PYTHON) tools/wheels/roots.py dist $(ROOTS) $(OPTIONS)

# Runs the package on the vendor's own runtimes under emulation. A stand-in for the NPU's device
# executes the submitted commands, and every use of the API is compared with the simulated
# runtime. Needs root; 12 minutes of two cores for 130 models:
#   make test-vendor MODELS=folder LIBRARIES="/path/librknnrt.so /path/librknnmrt.a"
# The folder may be that of `make generate OPTIONS="--keep folder --keep-all"`.
test-vendor: .cache/wheels/.ready
	tools/system.sh arm $(PYTHON)
	.cache/wheels/bin/python tools/wheels/vendor.py $(MODELS) \
	    $(addprefix --library ,$(LIBRARIES)) $(OPTIONS)

# Builds the documentation site into out/site; a warning is an error.
docs docs-version: export PACKAGE_PYTHON := $(BIN)/python
docs docs-version: $(VENV)/.demo

docs: .cache/site/.ready
	.cache/site/bin/python -m mkdocs build --strict

# Commits the site of VERSION to the branch gh-pages, beside those of other versions: "dev", or a
# tag such as v1.0.0, which becomes the latest one and the site's front page.
docs-version: export PATH := $(CURDIR)/.cache/site/bin:$(PATH)
docs-version: export GIT_COMMITTER_NAME := rknn-runtime
docs-version: export GIT_COMMITTER_EMAIL := rknn-runtime@localhost
docs-version: .cache/site/.ready
	@test -n "$(VERSION)" || { echo "VERSION: expected dev or a tag, got nothing" >&2; exit 2; }
	git fetch --quiet origin gh-pages:gh-pages || true  # the first version has none
	mike deploy --update-aliases "$(VERSION)" $(if $(filter v%,$(VERSION)),latest)
	$(if $(filter v%,$(VERSION)),mike set-default latest)

# One environment for each folder tools/NAME that has a requirements.txt.
.cache/%/.ready: tools/%/requirements.txt
	tools/system.sh demo $(PYTHON)
	$(PYTHON) -m venv .cache/$*
	.cache/$*/bin/python -m pip install --quiet --upgrade pip
	.cache/$*/bin/python -m pip install --quiet --requirement $<
	touch $@

# An editable installation with the libraries compiled in place, so that a Python started in
# the checkout imports the checkout. tools/wheels tests that wheels are complete.
$(VENV)/.demo: $(SOURCES)
	tools/system.sh demo $(PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet 'pip>=21.3'  # for editable installations
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --editable '.[image]'
	touch $@

$(VENV)/.test: $(VENV)/.demo
	tools/system.sh test $(PYTHON)
	$(BIN)/python -m pip install --quiet 'rknn-runtime[test]'  # adds to the editable installation
	# The tracker without the OpenCV that it asks for: it would replace the one without a display.
	$(BIN)/python -m pip install --quiet pydeprecate requests rich scipy
	$(BIN)/python -m pip install --quiet --no-deps "trackers; python_version >= '3.10'"
	touch $@

$(VENV)/.check: $(VENV)/.test
	tools/system.sh check $(PYTHON)
	$(BIN)/python -m pip install --quiet 'rknn-runtime[lint]'
	touch $@

clean:
	rm -rf build out $(VENV) *.egg-info
	rm -f rknn_runtime/*.so rknn_runtime/sim/*.so
