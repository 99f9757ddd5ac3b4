"""The real coordinator, loop and operators in a world that fails: committed output equals a run without failures."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tidegate.testing.simulation.faults import Faults
from tidegate.testing.simulation.world import Simulation

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_output_is_exactly_once_whatever_fails(seed: int) -> None:
    """T1 T2 T3 T6 T8 T9 T10 T11 T12 T19 T35 T40 T41 T46 T54 T57 T58: crashes, zombies, lost answers, late writes, repeats."""
    verdict = Simulation(seed).run()
    assert not verdict.violations, f"replay: make simulate SEED={seed}\n" + "\n".join(verdict.violations)


def test_a_run_without_faults_needs_one_deploy() -> None:
    verdict = Simulation(7, faults=Faults()).run()
    assert not verdict.violations
    assert verdict.tally.paths["deployed from nothing"] == 1
    assert verdict.tally.paths["deployed from a checkpoint"] == 0


def test_every_start_of_a_second_driver_fences_the_first() -> None:
    """T10: two coordinators are alive at once, again and again; only one of them ever commits."""
    verdict = Simulation(3, faults=Faults(second_driver=0.5)).run()
    assert not verdict.violations
    assert verdict.tally.paths["finished as Fenced"] > 0


def test_one_seed_is_one_history_in_every_process() -> None:
    histories = [_digests(hash_seed) for hash_seed in ("1", "2")]
    assert histories[0] == histories[1]
    assert histories[0].count("\n") == 3


def _digests(hash_seed: str) -> str:
    command = [sys.executable, "-m", "tidegate.testing.simulation", "--seeds", "3", "--digests"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "POLARS_MAX_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
