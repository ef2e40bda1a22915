# `make demo` and `make test` are all that a fresh machine needs; they install what is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Another index for torch, such as one with CUDA builds of another version.
TORCH_INDEX ?=
TORCH := 2.13.0
# What CUDA builds of that torch name as theirs; CPU builds come without it.
TRITON := triton==3.7.1; sys_platform == 'linux' and platform_machine == 'x86_64'
# For the target's environment. What is downloaded lies on its disk too, since `/tmp` may be a small one in memory.
INSTALL = TMPDIR=$(@D) $(@D)/bin/pip --disable-pip-version-check install
# The packages of the lock files, then ours, built by what they hold: nothing else is fetched.
PACKAGES := $(wildcard packages/*)
LOCKED := --quiet --require-hashes -r
ITSELF := --quiet --no-deps --no-build-isolation -e . $(PACKAGES:%=-e %)

.PHONY: help demo test test-jobs quick container fleet cuda-build check everything serve docs wheel transcripts clean sandbox-package system-packages

help:
	@echo "make demo    a whole competition on this machine, with standings at the end"
	@echo "make test    what the project promises, each rule once; of whole jobs, the browser and PostgreSQL a sample"
	@echo "make test-jobs  the rest of the tests, known cheats and their honest twins included; ONLY='--part 0/8' an eighth"
	@echo "make quick   the unit tests that failed last, else all of them"
	@echo "make container  tests of the sandbox and attacks on it, as where bubblewrap gets no namespaces; a service from deploy/"
	@echo "make fleet   the launcher for Ray on a cluster of four nodes on this machine, that for Modal with its client (250 MB more)"
	@echo "make cuda-build  demo, emulation tests and quickstart with PyPI's newest CUDA build of torch (6 GB); CUDA C++ with NVIDIA's compiler"
	@echo "make check   ruff, mypy, import-linter, documentation; needs no torch"
	@echo "make everything  all of these, as a release asks for; .ci/run has what the last changes can have broken"
	@echo "make serve   judge what is submitted"
	@echo "make docs    build the documentation into site/, which a server shows at /docs; needs no torch"
	@echo "make wheel   pack dist/, with the documentation in it"
	@echo "make transcripts  what people see of the Discord bot, as text and pictures for the docs"
	@echo
	@echo "The first of them makes .venv: 2 GB (0.5 GB to download) with a CPU build of torch, which is taken"
	@echo "where there is no NVIDIA driver and torch's CPU index answers, else 5 GB (3 GB) with PyPI's CUDA build."
	@echo "TORCH_INDEX=URL names another index."

demo: $(VENV)/runner sandbox-package
	$(BIN)/kernelcup demo --directory .demo

# Judges and contestants write no bytecode. Without any, each of the thousands that tests start compiles all that it
# imports; and pytest rewrites all tests again where it may keep nothing.
unexport PYTHONDONTWRITEBYTECODE
COMPILED := $(BIN)/python -m compileall -q -x /solutions/ src packages

# A third of the time of a test is waiting for processes, databases and browsers.
WORKERS = $(shell echo $$(($$(nproc) + 1)))

# Both lanes together have all tests but the fleet's and those of deploy/. The mark `jobs` says which test waits for the
# second; properties are tried in both, with an eighth of their examples in the first.
LANE = scripts/with-postgres $(BIN)/pytest -n $(WORKERS) --dist worksteal --ignore tests/fleet --ignore tests/deploy

test: $(VENV)/dev sandbox-package system-packages
	$(COMPILED)
	$(LANE) -m "not jobs" --hypothesis-profile short --dearest 10

test-jobs: $(VENV)/dev sandbox-package system-packages
	$(COMPILED)
	$(LANE) -m "jobs or hypothesis" $(ONLY)

quick: $(VENV)/dev
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m "not jobs" --hypothesis-profile short --lf tests/unit

# An ordinary container has no rights for namespaces, so jobs run under Landlock there. With this folder first on the
# path, `make test` and `make test-jobs` try all of them so: these are the tests of the sandbox and of what it keeps apart.
CONTAINER := tests/harness/test_harness_sandbox.py tests/harness/test_harness_escapes.py tests/harness/test_harness_own.py
CONTAINER += tests/harness/test_harness_ahead.py tests/harness/test_harness_runs.py tests/judged/test_attacks.py
IN_CONTAINER := (test_harness_sandbox or test_harness_escapes or test_harness_own or killed or daemon
IN_CONTAINER += or is_ended_takes or t03 or t81 or t83 or t86 or v15) and not says_what

# The files of deploy/ are carried out in roots of Debian's packages, with the network's packages and real namespaces.
container: $(VENV)/dev sandbox-package
	$(COMPILED)
	PATH="$(CURDIR)/tests/data/no_namespaces:$$PATH" $(BIN)/pytest -n $(WORKERS) --dist worksteal $(CONTAINER) -k "$(IN_CONTAINER)"
	@scripts/system-packages mmdebstrap:mmdebstrap ip:iproute2 setpriv:util-linux
	$(BIN)/pytest tests/deploy

# A real Ray cluster on this machine: 240 MB of packages, and seconds for the start of each node.
fleet: $(VENV)/fleet
	$(BIN)/pytest tests/fleet packages/kernelcup-modal

everything: check demo test test-jobs container fleet cuda-build
	@echo "not run: nothing"

check: $(VENV)/tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy $$(grep -l '^#!.* python3$$' scripts/*) scripts/*.py
	$(BIN)/python scripts/house
	$(BIN)/lint-imports --no-cache > $(VENV)/imports.log || { cat $(VENV)/imports.log; exit 1; }
	$(BIN)/mkdocs build --strict > $(VENV)/docs.log 2>&1 || { cat $(VENV)/docs.log; exit 1; }

serve: $(VENV)/runner sandbox-package
	$(BIN)/kernelcup serve

docs: $(VENV)/docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

wheel: docs $(VENV)/dev
	$(BIN)/python -m build
	for package in $(PACKAGES); do $(BIN)/python -m build --wheel --no-isolation --skip-dependency-check --outdir dist $$package || exit 1; done

transcripts: $(VENV)/dev sandbox-package
	$(BIN)/python scripts/transcripts

clean:
	rm -rf $(VENV) $(VENV)-cuda .demo site dist

# What the README says, with the build of torch that plain `pip install torch` takes: CUDA, here without a
# driver, and another release than ours.
cuda-build: $(VENV)-cuda/dev sandbox-package
	scripts/with-cuda-build $(VENV)-cuda
	$(VENV)-cuda/bin/pytest -q tests/harness/test_harness_inspection.py tests/harness/test_harness_cuda.py

$(BIN)/pip $(VENV)-cuda/bin/pip:
	@scripts/new-venv $(@:/bin/pip=) "$(PYTHON)"

# Torch comes first and pinned: anything else that wants it would pull gigabytes of another build.
$(VENV)/torch: | $(BIN)/pip
	@index=$$($(BIN)/python scripts/torch-index $(TORCH) --index "$(TORCH_INDEX)") && set -x && \
	$(INSTALL) torch==$(TORCH) $$index
	$(INSTALL) "$(TRITON)"
	touch $@

$(VENV)/server: pyproject.toml $(PACKAGES:%=%/pyproject.toml) requirements/server.txt | $(BIN)/pip
	$(INSTALL) $(LOCKED) requirements/server.txt
	$(INSTALL) $(ITSELF)
	touch $@

$(VENV)/tools: $(VENV)/server requirements/dev.txt
	$(INSTALL) $(LOCKED) requirements/dev.txt
	touch $@

$(VENV)/runner: $(VENV)/torch $(VENV)/server
	touch $@

$(VENV)/dev: $(VENV)/runner $(VENV)/tools
	touch $@

$(VENV)/docs: requirements/docs.txt | $(BIN)/pip
	$(INSTALL) $(LOCKED) requirements/docs.txt
	touch $@

$(VENV)/fleet: $(VENV)/dev requirements/fleet.txt
	$(INSTALL) $(LOCKED) requirements/fleet.txt
	touch $@

$(VENV)-cuda/torch: | $(VENV)-cuda/bin/pip
	$(INSTALL) --no-cache-dir torch
	touch $@

$(VENV)-cuda/dev: $(VENV)-cuda/torch pyproject.toml requirements/dev.txt
	$(INSTALL) $(LOCKED) requirements/dev.txt
	$(INSTALL) $(ITSELF)
	$(INSTALL) --quiet -e '.[cuda]'
	touch $@

# Foreign code runs in a sandbox where bubblewrap is there.
sandbox-package:
	@scripts/system-packages bwrap:bubblewrap

# What tests use beyond Python: a C++ compiler and ninja, for submissions that build an extension, a browser
# for the web site, and a PostgreSQL server.
system-packages:
	@scripts/system-packages g++:g++ ninja:ninja-build chromium:chromium
	@ls -d /usr/lib/postgresql/*/bin >/dev/null 2>&1 || scripts/system-packages initdb:postgresql
