# The two commands of the README, and a name for each part of them.
#   make demo    detect objects in a picture on the simulated NPU; leaves out/detections.png
#   make test    lint, types, warnings, sanitizers and the whole test suite
# Both install what they need into $(VENV) (and, where it is missing, the compiler,
# headers and venv of the system through apt-get) and can be repeated at will.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WARNINGS := -std=c11 -O3 -ffp-contract=off -Wall -Wextra -Wconversion -Werror
C_FILES = $(shell git ls-files '*.c' '*.h')
SOURCES := pyproject.toml setup.py rknn_cffi_build.py $(shell find csrc rknn_runtime -name '*.[chp]*' -not -name '*.py[co]' -not -path '*__pycache__*')

.PHONY: demo test lint types warnings sanitize pytest bench abi clean

demo: $(VENV)/.demo
	$(BIN)/python examples/detect.py examples/models/shapes_rk3588.rknn examples/scenes/scene.png \
	    --library sim --save out/detections.png

test: lint types warnings sanitize pytest

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(C_FILES)

types: $(VENV)/.test
	$(BIN)/mypy

warnings: $(VENV)/.test
	tools/warnings.sh $(WARNINGS)

sanitize: $(VENV)/.test
	$(BIN)/python tools/sanitize.py

pytest: $(VENV)/.test
	$(BIN)/pytest

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

abi: $(VENV)/.test
	$(BIN)/python tools/abi.py $(HEADER)

# A plain installation, not an editable one: the tests see what a user gets.
$(VENV)/.demo: $(SOURCES)
	tools/system.sh demo $(PYTHON)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	rm -rf build
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet '.[sim,image]'
	touch $@

$(VENV)/.test: $(VENV)/.demo
	tools/system.sh test $(PYTHON)
	$(BIN)/python -m pip install --quiet '.[sim,image,test,lint]'
	touch $@

clean:
	rm -rf build out $(VENV) *.egg-info
