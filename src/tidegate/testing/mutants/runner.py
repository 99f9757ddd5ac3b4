"""All mutants, each in a process of its own, two at a time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from tidegate.testing.mutants.hunting import Survived, Verdict
from tidegate.testing.mutants.mutant import Mutant

AT_ONCE = 2
HUNT_TIMEOUT_S = 1_800
"""For a mutant that never ends; on a machine that does nothing else a hunt takes seconds."""


def run(mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, Verdict]]:
    """Verdicts in the order of ``mutants``, each as soon as it and those before it are known."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from zip(mutants, pool.map(_in_child, mutants), strict=True)


def _in_child(mutant: Mutant) -> Verdict:
    command = [sys.executable, "-m", "tidegate.testing.mutants", "--hunt", mutant.name]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=HUNT_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return Survived(f"no verdict after {HUNT_TIMEOUT_S} s", HUNT_TIMEOUT_S)
    if child.returncode:
        return Survived(f"the hunt failed: {(child.stderr.strip() or 'no message').splitlines()[-1]}")
    return msgspec.json.decode(child.stdout.splitlines()[-1], type=Verdict)
