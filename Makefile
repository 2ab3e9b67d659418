# Everything that people and CI do here; `make` lists it.
# On a fresh Debian or Ubuntu with Python 3.11 or newer, `make run` and `make test` need nothing first.

SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARGS :=
DIALECT := kip
RELEASE := $(DIALECT)
PORT := 8083
KAFKA := 3.9.1
JOBS := $(shell nproc)
# Tests run in more processes than there are cores. Many tests sleep, or wait for a broker or another process, and use no core meanwhile.
QUICK_JOBS = $(shell expr $(JOBS) + 1)
TEST_JOBS = $(shell expr $(JOBS) + 3)
# A run ends after this number of failures, because each may have waited for two minutes.
MOST_FAILURES := 10
HISTORY := tests/histories/life-3.9.log.jsonl
PLUGINS := tests/histories/catalogue.json
DEMO := .cache/$(basename $(basename $(notdir $(HISTORY)))).db

# Tests start hundreds of Python processes, so byte code is kept even if the environment forbids it.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup run history kafka quick test prove check lint types format scenarios scenarios-rewrite bench spark-jars oracle kafka-its lock clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv/ from requirements.lock (other targets do it by themselves)

$(READY): requirements.lock pyproject.toml tools/setup
	@tools/setup $(VENV)
	@touch $@

run: $(READY) ## Run connectors on an embedded log, with Connect's REST API on 127.0.0.1:8083 (PORT=, RELEASE=3.9)
	@tools/live "$(PORT)" "$(RELEASE)" $(ARGS)

# A bad release is reported before anything is written.
history: $(READY) ## Serve a recorded cluster on 127.0.0.1:8083 (PORT=, RELEASE=3.9, HISTORY=FILE, PLUGINS=FILE)
	@$(BIN)/controlplane inspect tests/histories/roll-3.4-3.9-3.4.log.jsonl --release "$(RELEASE)" > /dev/null
	@mkdir -p $(dir $(DEMO))
	@test -e $(DEMO) || $(BIN)/controlplane import $(HISTORY) $(DEMO) || { rm -f $(DEMO)*; exit 1; }
	@echo "Connector classes beside Kafka's own are declared in $(PLUGINS); PLUGINS=FILE declares others (docs/testing.md)"
	@$(BIN)/controlplane serve $(DEMO) --plugins $(PLUGINS) \
	  --port "$(PORT)" --release "$(RELEASE)" $(ARGS)

kafka: $(READY) ## Run a broker, a Connect worker and a control plane attached to it, without Docker (KAFKA=, PORT=)
	@tools/java
	$(BIN)/python -m tests.kafka.demonstration .cache/kafka --release $(KAFKA) --port $(PORT)

quick: $(READY) ## Run the tests that need no Java, browser or other process: three minutes
	QUICK=1 PYTHONHASHSEED=0 $(BIN)/pytest -q -n $(QUICK_JOBS) $(ARGS)

test: $(READY) ## Run every test (ARGS="-k fold"); as root, the target first installs a JDK, Maven, kcat, Chromium and Prometheus, unless NO_SYSTEM=1
	@tools/java
	@tools/browser
	@tools/prometheus
	PYTHONHASHSEED=0 $(BIN)/pytest -n $(TEST_JOBS) --maxfail=$(MOST_FAILURES) $(ARGS)

prove: $(READY) ## Run every test with far more random input, new in each run: hours (SEED= repeats a run)
	@tools/java
	@tools/browser
	@tools/prometheus
	PROVE=1 $(BIN)/pytest $(ARGS)

check: lint types ## Lint, types, and the house rules
	$(BIN)/pytest tests/test_tidy.py

lint: $(READY) ## Check style and formatting
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY) ## Check types, strictly
	$(BIN)/mypy

format: $(READY) ## Format the code, and mend what ruff can mend
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

scenarios: $(READY) ## Run the scenarios
	$(BIN)/pytest scenarios $(ARGS)

scenarios-rewrite: $(READY) ## Write the present output into the scenarios; then review `git diff`
	$(BIN)/controlplane scenario run --rewrite $$(find scenarios -name '*.scenario' | sort)

# Archives of 1, 10 and 30 million records. One of 100 million, 4 GB of disk, is measured by
# .venv/bin/python -m benchmarks.replay --records 100 --rounds 3 --folder .cache/fleet
# Fleets are left out, because one of 512 clusters has 31 million records more:
# .venv/bin/python -m benchmarks.fleets --clusters 1 --clusters 8 --clusters 64 --clusters 512
bench: $(READY) ## Run most benchmarks of docs/benchmarks.md: three quarters of an hour
	@tools/java
	$(BIN)/python -m benchmarks.fold
	$(BIN)/python -m benchmarks.append
	$(BIN)/python -m benchmarks.kafka
	$(BIN)/python -m benchmarks.pipeline
	$(BIN)/python -m benchmarks.commands
	$(BIN)/python -m benchmarks.startup
	$(BIN)/python -m benchmarks.boot
	$(BIN)/python -m benchmarks.rest
	$(BIN)/python -m benchmarks.rest.health_latency
	$(BIN)/python -m benchmarks.replay --folder .cache/fleet

spark-jars: ## Fetch Spark's Kafka source into .cache/spark-jars, for `replay capture --engine spark`
	@tools/java
	tools/spark-jars .cache/spark-jars

oracle: $(READY) ## Compare the fold with Kafka's own classes; write docs/releases.md and the catalogues anew
	@tools/java
	$(BIN)/python -m tests.oracle.releases
	$(BIN)/python -m tests.oracle.definitions
	$(BIN)/pytest tests/oracle $(ARGS)

kafka-its: $(READY) ## Run Kafka's own integration tests on Java workers and on ours: half an hour (CLASS=, ARGS="--worker own")
	@tools/java
	$(BIN)/python -m tests.integration $(CLASS) $(ARGS)

lock: $(READY) ## Write requirements.lock anew, with today's versions
	$(BIN)/uv pip compile pyproject.toml --group dev --extra spark --universal \
	  --generate-hashes --upgrade --no-emit-index-url --quiet --custom-compile-command "make lock" --output-file requirements.lock

clean: ## Remove generated files: environment, caches, the logs of `make run` and `make history`
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis dist
