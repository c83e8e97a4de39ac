# Every target runs in .venv, which is made on first use from the hashed lock files. Needs Python 3.11+ and make.
PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: .venv/demo ## watch a recorded 130,000-token agent run survive a 32K window
	$(BIN)/trimtab demo $(ARGS)

run: .venv/demo ## serve: make run ARGS="--upstream https://api.openai.com/v1"
	$(BIN)/trimtab serve $(ARGS)

test: .venv/dev ## run the tests (minutes)
	$(BIN)/python -m pytest -n auto --ignore tests/e2e/test_clients.py -m "not slow" $(ARGS)

test-all: .venv/dev ## run the slow tests too
	$(BIN)/python -m pytest -n auto --ignore tests/e2e/test_clients.py $(ARGS)

check: .venv/dev ## check lint, format, types, import contracts and lock files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@! grep -rInE 'https?://[^ ]*(pypi|pythonhosted|npmjs|debian)\.org' --include='*.lock' . || (echo 'a lock file names a host' && false)

audit: .venv/dev ## look for known vulnerabilities in the dependencies that ship; needs the network
	$(BIN)/python .ci/audit

bench: .venv/dev ## run the benchmarks, each beside a baseline in the same run
	$(BIN)/python -m tests.bench $(ARGS)

e2e: .venv/dev ## run real SDKs and coding agents through the proxy (installs them into a cache folder)
	$(BIN)/python -m tests.e2e.install
	$(BIN)/python -m pytest tests/e2e $(ARGS)

soak: .venv/dev ## run mixed load with faults for twenty minutes: make soak ARGS="--minutes 20"
	$(BIN)/python -m tests.soak $(ARGS)

deploy-check: .venv/dev ## check chart, dashboard, alerts and Dockerfile, each with its own tool
	tests/deploy/tools.sh
	$(BIN)/python -m tests.deploy $(ARGS)

fault-matrix: .venv/dev ## each fault caused once, watched by a real Prometheus: its series, alert and log line
	$(BIN)/python -m tests.deploy.faults $(ARGS)

image-test: ## build the image and test it; needs a Docker engine
	tests/deploy/image_test.sh

lock: .venv/dev ## write the lock files again from pyproject.toml
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

.PHONY: help demo run test test-all check audit bench e2e soak deploy-check fault-matrix image-test lock
