# Everything runs in a .venv of its own, made on first use from the hashed lock files. Needs Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: .venv/demo ## watch a recorded 130,000-token agent run survive a 32K window
	$(BIN)/trimtab demo $(ARGS)

run: .venv/demo ## serve: make run ARGS="--upstream https://api.openai.com/v1"
	$(BIN)/trimtab serve $(ARGS)

test: .venv/dev ## the tests
	$(BIN)/python -m pytest -n auto --ignore tests/e2e/test_clients.py -m "not slow" $(ARGS)

test-all: .venv/dev ## the tests that take minutes too
	$(BIN)/python -m pytest -n auto --ignore tests/e2e/test_clients.py $(ARGS)

check: .venv/dev ## lint, format, types, import contracts, lock files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@! grep -rInE 'https?://[^ ]*(pypi|pythonhosted|npmjs|debian)\.org' --include='*.lock' . || (echo 'a lock file names a host' && false)

audit: .venv/dev ## known holes in what ships; needs the network
	$(BIN)/python .ci/audit

bench: .venv/dev ## benchmarks against baselines of the same run
	$(BIN)/python -m tests.bench $(ARGS)

e2e: .venv/dev ## real SDKs and coding agents through the proxy (installs them beside, in a cache)
	$(BIN)/python -m tests.e2e.install
	$(BIN)/python -m pytest tests/e2e $(ARGS)

soak: .venv/dev ## twenty minutes of mixed load with faults: make soak ARGS="--minutes 20"
	$(BIN)/python -m tests.soak $(ARGS)

deploy-check: .venv/dev ## chart, dashboard, alerts, image recipe, each with the real tool
	tests/deploy/tools.sh
	$(BIN)/python -m tests.deploy $(ARGS)

image-test: ## build the image and run it, with a Docker engine
	tests/deploy/image_test.sh

lock: .venv/dev ## renew the lock files from pyproject.toml
	$(BIN)/uv pip compile $(LOCK) pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile $(LOCK) --extra demo pyproject.toml -o requirements-demo.lock
	$(BIN)/uv pip compile $(LOCK) --extra demo --extra otel --group dev pyproject.toml -o requirements-dev.lock
	$(BIN)/uv pip compile $(LOCK) --extra otel --no-emit-package faker --no-emit-package polyfactory pyproject.toml -o requirements-image.lock
	echo hatchling | $(BIN)/uv pip compile $(LOCK) - -o requirements-build.lock
LOCK := -q --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --python-version 3.11

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "trimtab needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv .venv

.venv/demo: .venv/bin/python requirements-demo.lock pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-demo.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

.venv/dev: .venv/bin/python requirements-dev.lock pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements-dev.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

.PHONY: help demo run test test-all check audit bench e2e soak deploy-check image-test lock
