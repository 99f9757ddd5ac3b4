# Everything a person or a machine does with this project. Plain `make` prints this list.
# Every target does its own set-up first; once done it is not done again until the lock file changes.

PYTHON ?= python3
PY := .venv/bin/python
SEEDS ?= 500
RUNS ?= 20
SECONDS ?= 180
SINK_SECONDS ?= 300

.DEFAULT_GOAL := help
.PHONY: help setup demo test check fast bench cost simulate fuzz model properties mutants soak chaos order eventtime lock clean

help:  ## this list
	@echo "Tidegate: PySpark streaming queries, continuously and exactly once."
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.ready  ## everything this machine needs: packages, a Java runtime if there is none

.venv/.ready: requirements.lock pyproject.toml tools/setup.py tools/uv.lock
	@$(PYTHON) tools/setup.py

demo: setup  ## a query runs on Spark, workers are killed, the result equals Spark batch
	@$(PY) examples/demo.py

check: setup  ## lint, format, types, architecture
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/basedpyright
	@.venv/bin/lint-imports --no-cache

fast: setup  ## the tests without Spark: seconds
	@.venv/bin/pytest tests/unit tests/property tests/simulation -m "not slow"

test: check  ## check, then every test
	@$(PY) tools/run_tests.py $(PYTEST)

TESTS = $(wildcard tests/unit tests/property tests/simulation tests/integration tests/differential tests/e2e)

bench: setup  ## Tidegate beside Spark Structured Streaming, in one run, as ratios
	@$(PY) -m benchmarks.bench

cost: setup  ## what checkpoints cost: a gigabyte of state, CPU per row, a slow sink, 32 slots
	@$(PY) -m benchmarks.big_state
	@$(PY) -m benchmarks.checkpoint_cost
	@$(PY) -m benchmarks.slow_sink
	@$(PY) -m benchmarks.many_slots

simulate: setup  ## the protocol under faults: SEEDS=500 runs, or one with SEED=n
	@$(PY) -m tidegate.testing.simulation $(if $(SEED),--seed $(SEED),--seeds $(SEEDS)) $(if $(EVENT_TIME),--event-time) $(if $(THEME),--theme)

fuzz: SEEDS = 2000
fuzz: setup  ## random queries against Spark batch, killed and rescaled on the way: SEEDS=2000, or one with SEED=n
	@$(PY) -m tests.differential.fuzz $(if $(SEED),--seed $(SEED),--seeds $(SEEDS))

model: setup  ## exhaustive model check of the coordinator's rules
	@$(PY) -m tidegate.testing.model $(ARGS)

properties: setup  ## the property tests, RUNS=20 times with examples that `make test` does not try
	@for run in $$(seq $(RUNS)); do HYPOTHESIS_PROFILE=search .venv/bin/pytest -q tests/property $(PYTEST) || exit 1; done

mutants: setup  ## plant every known protocol bug in turn: simulator or model check must find each
	@$(PY) -m tidegate.testing.mutants $(ARGS)

soak: setup  ## the tests that `make test` has in a short version only
	@.venv/bin/pytest $(TESTS) -m soak --durations=10 $(PYTEST)

chaos: setup  ## real Spark: SECONDS=180 of kills and freezes, SINK_SECONDS=300 for each real sink, the harm of less, RUNS=20 timed kills
	@$(PY) tools/storm.py --seconds $(SECONDS)
	@$(PY) tools/storm.py --seconds 60 --checkpoints s3
	@$(PY) tools/storm.py --seconds 60 --checkpoints hdfs
	@$(PY) tools/storm.py --skewed
	@$(PY) tools/storm.py --harm at-least-once
	@$(PY) tools/storm.py --harm alignment
	@$(PY) tools/storm.py --harm look
	@for sink in kafka parquet delta iceberg postgres; do $(PY) tools/connector_storm.py --sink $$sink --seconds $(SINK_SECONDS) || exit 1; done
	@$(PY) tools/chaos.py --runs $(RUNS)

order: ROWS = 20000000
order: setup  ## Kafka → Kafka, checkpoints every 200 ms, ROWS=20000000: is every row in order, in peace and with kills?
	@$(PY) tools/kafka_order.py --rows $(ROWS)
	@$(PY) tools/kafka_order.py --rows $(ROWS) --kills

eventtime: RUNS = 10
eventtime: setup  ## real Spark beside Structured Streaming, RUNS=10 of each scenario: is any row late that must not be? how soon is a window out?
	@$(PY) tools/event_time.py --runs $(RUNS)
	@$(PY) tools/event_time.py --latency

lock: setup  ## compile requirements.lock again from pyproject.toml
	@.tools/bin/uv pip compile --quiet --universal --generate-hashes --no-header --extra java --extra all --group dev --python-version 3.11 \
		--output-file requirements.lock pyproject.toml

clean:  ## remove everything that can be made again
	@rm -rf .venv .tools build dist artifacts .pytest_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
	@find src tests examples benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} +
