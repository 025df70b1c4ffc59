# Everything a developer runs. `make` alone lists the targets.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Tests start hundreds of processes, and pytest rewrites every module: each would compile all of it
# anew where the environment forbids Python to keep what it has compiled.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test-quick test test-all check format bench bench-peers bench-engine bench-ground bench-groups bench-poll bench-executor bench-worker bench-against chaos clean docs

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with every extra and inturn itself, editable

demo: $(STAMP) ## Show what inturn does, in a minute
	@$(BIN)/inturn demo

# Many tests wait, for a lease to run out or a process to start: eight at a time keep two cores busy,
# four do not. On a server that is given they share its connections, of which there may be a hundred.
PYTEST := $(BIN)/python -m pytest -n $(if $(INTURN_TEST_POSTGRES),4,8) --dist worksteal
QUICK := $(addprefix tests/,unit contract queue executor worker cli simulation testing)

test-quick: $(STAMP) ## Run the quick tests on SQLite, in a minute (ARGS="-k lanes" to choose)
	$(PYTEST) -m "not slow and not medium and not postgres" $(QUICK) $(ARGS)

test: $(STAMP) ## Run all but the slow tests, with a real PostgreSQL, in four minutes
	$(PYTEST) -m "not slow" --ignore=tests/model $(ARGS)

test-all: $(STAMP) ## Run every test, and the contract on PostgreSQL 16, too
	$(PYTEST) $(if $(ARGS),$(ARGS),--write-durations)
ifeq ($(ARGS)$(INTURN_TEST_POSTGRES),)
	INTURN_TEST_POSTGRES_VERSION=16 $(PYTEST) tests/contract tests/plans/test_postgres.py -k "not sqlite"
endif

check: $(STAMP) ## Check format, lint, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(wildcard src tests bench)
	$(BIN)/lint-imports

format: $(STAMP) ## Put the source in its format, and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## Run every benchmark beside other queues, write bench/results (BENCH_ARGS=--quick)
	$(BIN)/python -m bench $(BENCH_ARGS)

bench-peers: $(STAMP) ## Measure inturn and other queues side by side, write bench/results
	$(BIN)/python -m bench.contest $(BENCH_ARGS)

bench-engine: $(STAMP) ## Measure the engine alone, on both stores
	$(BIN)/python -m bench.engine

bench-ground: $(STAMP) ## Measure what applications stand on: own rows, limits, waiting
	$(BIN)/python -m bench.ground

bench-groups: $(STAMP) ## Measure groups beside plain jobs that wait for one another
	$(BIN)/python -m bench.groups

bench-poll: $(STAMP) ## Measure sources beside fetching alone, and what schedules cost
	$(BIN)/python -m bench.poll

bench-executor: $(STAMP) ## Measure the executor beside ThreadPoolExecutor
	$(BIN)/python -m bench.executor

bench-worker: $(STAMP) ## Measure workers beside other queues', submitting, latency, memory
	$(BIN)/python -m bench.worker

bench-against: $(STAMP) ## Measure beside another checkout (OLD=<checkout with its own .venv>)
	$(BIN)/python -m bench.against $(OLD) $(BENCH_ARGS)

chaos: $(STAMP) ## Simulate (SEEDS=2000; SECONDS_MAX=180 of PostgreSQL), then kill and stop real processes
	$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),2000)
	$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),2000) --store postgres --seconds $(or $(SECONDS_MAX),180)
	$(BIN)/python -m tests.poll.killed --seeds 200
	$(BIN)/python -m tests.chaos $(ARGS)
	$(BIN)/python -m tests.groups.many --groups $(or $(GROUPS),10000)
	$(BIN)/python -m tests.groups.killing --seeds $(or $(KILLED),50)

docs: $(STAMP) ## Build the documentation as a site, in build/site
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict

clean: ## Remove .venv and everything that was built
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last, so that an install that broke off is done again.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "inturn needs Python 3.11 or later; choose one with: make setup PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -c 'import ensurepip' 2>/dev/null || \
	  { echo "$(PYTHON) cannot make virtual environments: it lacks ensurepip." >&2; \
	    echo "On Debian and Ubuntu: apt install python3-venv. Or choose another: make setup PYTHON=…" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev]'
	@touch $@
