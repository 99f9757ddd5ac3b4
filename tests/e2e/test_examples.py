"""Every example runs to its end, one after the other in one process; the demo and the benchmark in a short version."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py") if path.name != "demo.py")

# A minute each on a quiet machine; on a busy one they take what they take.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done


@pytest.fixture(scope="module")
def output_of_examples() -> str:
    return run("tests/e2e/example_runner.py", *(f"examples/{example}" for example in EXAMPLES)).stdout


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_to_its_end(output_of_examples: str, example: str) -> None:
    assert f"example {example}: ran to its end" in output_of_examples, output_of_examples[-4000:]


def test_the_demo_survives_a_kill_and_says_so_in_its_last_line() -> None:
    done = run("examples/demo.py", DEMO_SECONDS="10", DEMO_RATE="20000", DEMO_KILLS="1")
    last = done.stdout.splitlines()[-1]
    assert last.startswith("OK: ")
    assert last.endswith(" rows equal Spark batch's after 1 kills (exactly once)")
    assert "kill -9 " in done.stdout


def test_the_benchmark_measures_both_engines() -> None:
    done = run("-m", "benchmarks.bench", BENCH_ROWS="200000", BENCH_KEYS="1000", BENCH_REPEATS="1", BENCH_LATENCY_S="0", BENCH_QUERIES="q2,q7")  # fmt: skip
    assert "same work" in done.stdout
    table = [line for line in done.stdout.splitlines() if line.endswith("×")]
    assert [line.split(":")[0] for line in table] == ["q2", "q7"]
