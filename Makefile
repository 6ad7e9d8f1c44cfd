# What can be done with a checkout. `make` alone lists it.

VENV ?= .venv
PYTHON ?=
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-compile
LOCK := uv pip compile --quiet --universal --generate-hashes --no-header --python-version 3.11 pyproject.toml \
	--extra embedded --group build
# Compiles what a fleet's processes import, once and not in each of them at its first start.
COMPILED := import celery.apps.worker, rich.live, pypdf, fleet.client, fleet._apps.tasks.worker, fleet._apps.scheduler.main
DEMO := $(VENV)/.installed-demo
DEV := $(VENV)/.installed-dev

.PHONY: help venv demo test simulate chaos soak check parallelqa lock clean

help:
	@echo 'make demo         start a fleet, pursue a research goal, show plan, steps, answer, cost and time'
	@echo 'make parallelqa   the ParallelQA goals on a fleet: right answers, and how much faster in parallel'
	@echo 'make test         all tests'
	@echo 'make chaos        every fault on a real fleet at full length, and a table of what came of it'
	@echo 'make soak         half an hour of mixed faults on 2,000 goals (SOAK_MINUTES=3 for less)'
	@echo 'make simulate     faults on a simulated fleet, by 2,000 seeds (SIMULATED_SEEDS=n for others)'
	@echo 'make check        linters, types, layers, spelling'
	@echo 'make venv         only $(VENV), with everything that these need'
	@echo 'make lock         the files in requirements/ anew (needs uv)'
	@echo 'make clean        remove $(VENV) and the caches'
	@echo 'Wanted: Python 3.11 or newer with venv; name another one with PYTHON=/path/to/python3'

demo: $(DEMO)
	@exec $(BIN)/python examples/research/demo.py

parallelqa: $(DEMO)
	$(BIN)/python examples/parallelqa/run.py --set all

test: $(DEV)
	$(BIN)/python -m pytest

chaos: $(DEV)
	$(BIN)/python -m tests.chaos

soak: $(DEV)
	$(BIN)/python -m tests.chaos.soak

simulate: $(DEV)
	SIMULATED_SEEDS=$${SIMULATED_SEEDS:-2000} $(BIN)/python -m pytest tests/simulation --timeout 0

check: $(DEV)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell

venv: $(DEV)

$(DEMO): requirements/demo.txt pyproject.toml
	@VENV='$(VENV)' PYTHON='$(PYTHON)' sh requirements/venv.sh
	@echo 'installing what the demo needs into $(VENV) (once)'
	@$(PIP) --require-hashes -r requirements/demo.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@$(BIN)/python -c '$(COMPILED)'
	@touch $@

$(DEV): requirements/dev.txt pyproject.toml
	@VENV='$(VENV)' PYTHON='$(PYTHON)' sh requirements/venv.sh
	@echo 'installing what tests and checks need into $(VENV) (once)'
	@$(PIP) --require-hashes -r requirements/dev.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $(DEMO) $@

lock:
	@command -v uv >/dev/null || { echo 'make lock needs uv on PATH' >&2; exit 1; }
	$(LOCK) --group test --group check -o requirements/dev.txt
	$(LOCK) -c requirements/dev.txt -o requirements/demo.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
	find fleet tasks scheduler tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
