# `make demo` and `make test` are all that a fresh machine needs; they install what is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Another index for torch, such as one with CPU or CUDA builds.
TORCH_INDEX ?=
PIP := $(BIN)/pip --disable-pip-version-check --quiet
TORCH := torch==2.13.0 $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))

.PHONY: help demo test attacks check serve docs transcripts clean sandbox-package system-packages

help:
	@echo "make demo    a whole competition on this machine, with standings at the end"
	@echo "make test    all tests but whole attacks"
	@echo "make attacks known cheats and their honest twins, on the emulated device"
	@echo "make check   ruff, mypy, import-linter, documentation"
	@echo "make serve   judge what is submitted"
	@echo "make docs    build the documentation into site/"
	@echo "make transcripts  what people see of the Discord bot, as text and pictures for the docs"

demo: $(VENV)/runner sandbox-package
	$(BIN)/kernelcup demo --directory .demo

# Whole jobs of known cheats: minutes by themselves.
ATTACKS := tests/judged/test_attacks.py tests/judged/test_clock_attacks.py

test: $(VENV)/dev sandbox-package system-packages
	scripts/with-postgres $(BIN)/pytest -n auto --dist worksteal $(ATTACKS:%=--ignore %)

attacks: $(VENV)/dev sandbox-package
	$(BIN)/pytest -n auto --dist worksteal $(ATTACKS)

check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache > $(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }
	$(BIN)/mkdocs build --strict > $(VENV)/docs.log 2>&1 || { cat $(VENV)/docs.log; exit 1; }

serve: $(VENV)/runner sandbox-package
	$(BIN)/kernelcup serve

docs: $(VENV)/dev
	$(BIN)/mkdocs build --strict

transcripts: $(VENV)/dev sandbox-package
	$(BIN)/python scripts/transcripts

clean:
	rm -rf $(VENV) .demo site dist

# Torch comes first and pinned: anything else that wants it would pull gigabytes of another build.
$(VENV)/runner: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install $(TORCH) numpy
	$(PIP) install -e .
	touch $@

$(VENV)/dev: $(VENV)/runner
	$(PIP) install -e '.[dev]'
	touch $@

# Foreign code runs in a sandbox where bubblewrap is there.
sandbox-package:
	@scripts/system-packages bwrap:bubblewrap

# What tests use beyond Python: a C++ compiler and ninja, for submissions that build an extension, and a
# PostgreSQL server.
system-packages:
	@scripts/system-packages g++:g++ ninja:ninja-build
	@ls -d /usr/lib/postgresql/*/bin >/dev/null 2>&1 || scripts/system-packages initdb:postgresql
