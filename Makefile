# Needs Python 3.11 to 3.14, git and make; everything else goes into .venv.
# Another interpreter: make test PYTHON=python3.13    Arguments: make test ARGS="-k reply -x"

PYTHON ?= python3
ARGS ?=
KILLS ?= 5000
LOAD_SEC ?= 300
CYCLES ?= 1000
SEED ?=
# A third of their time the tests wait for processes to come and go.
WORKERS = $$(( $$(nproc) * 3 / 2 ))
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip -qq --disable-pip-version-check

# The lock names the public index, whatever this machine is set up to use.
unexport UV_INDEX UV_INDEX_URL UV_DEFAULT_INDEX UV_EXTRA_INDEX_URL UV_FIND_LINKS UV_NO_INDEX
UV := UV_PYTHON_DOWNLOADS=never $(VENV)/bin/uv --no-config --quiet
EXPORT := $(UV) export --frozen --offline --python $(PY) --format requirements.txt \
	--no-hashes --no-emit-project --no-header
MADE_BY := \# Made from uv.lock by `make lock`, for machines that have pip and no uv.

# Hundreds of short processes are started from these sources: each would compile them again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help run test test-commands test-faults test-live test-browser bench bench-quick pictures soak check spec failures docs lock clean format same-python

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(VENV)/.run ## start the service with the example skills (data in .turnkeeper)
	@$(VENV)/bin/turnkeeper serve --data-dir .turnkeeper --skills-dir examples/skills $(ARGS)

test: $(VENV)/.dev ## run the tests
	@$(PY) -m pytest --numprocesses $(WORKERS) --dist worksteal $(ARGS)

test-commands: $(VENV)/.dev ## run the tests that type commands, those of the docs among them
	@$(PY) -m pytest tests/cli tests/docs --numprocesses $(WORKERS) --dist worksteal $(ARGS)

test-faults: $(VENV)/.dev ## run the tests that kill, starve and overload the service
	@$(PY) -m pytest tests/crash tests/faults --numprocesses $(WORKERS) --dist worksteal $(ARGS)

test-live: $(VENV)/.dev ## run the tests with the real CLIs, which npm fetches once (1.5 GB; ARGS="-k codex" for one)
	@$(PY) -m pytest tests/live --numprocesses 2 --dist loadgroup $(ARGS)

test-browser: $(VENV)/.dev ## run the tests of the page in Chromium, which apt fetches once (as root)
	@$(PY) -m tests.browser.chromium
	@$(PY) -m pytest tests/browser --numprocesses 2 $(ARGS)

pictures: $(VENV)/.dev ## take the pictures in docs/images again
	@$(PY) -m tests.browser.chromium
	@TURNKEEPER_SANDBOX__MODE=required $(PY) -m tests.browser.pictures $(ARGS)

soak: $(VENV)/.dev ## kill and load the service for half an hour, and count what is left (KILLS=500 LOAD_SEC=60 CYCLES=100 SEED=7)
	@$(PY) -m tests.crash.kills --kills $(KILLS) $(if $(SEED),--seed $(SEED))
	@$(PY) -m tests.load --seconds $(LOAD_SEC) --waiting 10000 --in-flight 200 --listeners 500 --rivals 20 $(if $(SEED),--seed $(SEED))
	@$(PY) -m tests.crash.soak --cycles $(CYCLES) $(if $(SEED),--seed $(SEED))

bench: $(VENV)/.dev ## measure everything against its goal, and write docs/benchmarks.md again (ARGS="--only G1 G6" for some)
	@$(PY) -m bench --docs $(ARGS)

bench-quick: $(VENV)/.dev ## the same in a minute, with fewer rounds; the docs stay as they are
	@$(PY) -m bench --quick $(ARGS)

check: $(VENV)/.dev ## format, lint, types, import rules, lock files
	@echo "== format"
	@$(PY) -m ruff format --check .
	@echo "== lint"
	@$(PY) -m ruff check .
	@echo "== types"
	@$(PY) -m mypy
	@echo "== imports"
	@$(VENV)/bin/lint-imports --no-logo --no-cache
	@echo "== lock files"
	@$(UV) lock --check --offline --python $(PY) || { echo "uv.lock does not fit pyproject.toml: run make lock"; exit 1; }
	@{ echo '$(MADE_BY)'; $(EXPORT) --no-dev; } | diff -u requirements.txt - || { echo "run make lock"; exit 1; }
	@{ echo '$(MADE_BY)'; $(EXPORT); } | diff -u requirements-dev.txt - || { echo "run make lock"; exit 1; }
	@echo "all good"

spec: $(VENV)/.dev ## show which scenario of the specification is held by which test
	@$(PY) -m tools.spec_table $(ARGS)

failures: $(VENV)/.dev ## show which failure is held by which test (ARGS="--all" for every test, --live and --browser for more)
	@$(PY) -m tools.failure_table --numprocesses $(WORKERS) --dist worksteal $(ARGS)

docs: $(VENV)/.dev ## write the generated parts of README and docs again
	@$(PY) -m tools.docs $(ARGS)

format: $(VENV)/.dev ## format the code and apply the safe lint fixes
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

lock: $(VENV)/.dev ## write uv.lock and both requirements files again (ARGS="--upgrade" for newer versions)
	@$(UV) lock --python $(PY) --default-index https://pypi.org/simple $(ARGS)
	@{ echo '$(MADE_BY)'; $(EXPORT) --no-dev; } > requirements.txt
	@{ echo '$(MADE_BY)'; $(EXPORT); } > requirements-dev.txt

clean: ## remove .venv, caches and builds (never .turnkeeper: it holds your runs)
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find . -path ./.git -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null || { \
		echo "Turnkeeper needs Python 3.11 to 3.14, and $(PYTHON) is something else: try make PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot make virtual environments here: install python3-venv (apt install python3-venv)" >&2; exit 1; }
	@echo "setting up $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# Asking for an interpreter by name while .venv was made by another would otherwise go unnoticed.
same-python: $(PY)
ifeq ($(origin PYTHON),command line)
	@[ "$$($(PYTHON) -V)" = "$$($(PY) -V)" ] || { \
		echo "$(VENV) was made by $$($(PY) -V), not by $(PYTHON): run make clean first" >&2; exit 1; }
endif

$(VENV)/.run: requirements.txt pyproject.toml | same-python
	@echo "installing what the service needs"
	@$(PIP) install -r requirements.txt
	@$(PIP) install --no-deps -e .
	@touch $@

$(VENV)/.dev: requirements-dev.txt requirements.txt pyproject.toml | same-python
	@echo "installing what the service and its tests need"
	@$(PIP) install -r requirements-dev.txt
	@$(PIP) install --no-deps -e .
	@touch $(VENV)/.run $@
