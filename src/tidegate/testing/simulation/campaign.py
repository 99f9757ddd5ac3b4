"""Many seeds in several processes: what happened, how often, and what the auditors found."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context

from tidegate.testing.simulation.faults import Faults, Tally
from tidegate.testing.simulation.timed_campaign import TIMED_PATHS

SEEDS_PER_TASK = 10
SEEDS_FOR_ALL = 1_000
"""With this many seeds every kind of fault and every path must have occurred."""

PATHS = (
    "checkpoint completed with rows in flight",
    "checkpoint failed: attempt ended",
    "checkpoint failed: declined",
    "checkpoint failed: store unknown",
    "checkpoint failed: subsumed",
    "checkpoint failed: timed out",
    "checkpoint failed: upload failed",
    "cut restored on its own",
    "deployed from a checkpoint",
    "deployed from nothing",
    "finished as Failed",
    "finished as Fenced",
    "finished as Finished",
    "finished as Stopped",
    "judged: at least once",
    "judged: exactly once",
    "request answered: RequestDone",
    "request answered: RequestFailed",
    "restored with another parallelism",
    "rows counted twice, as at-least-once allows",
    "rows in flight restored",
    "savepoint imported on its own",
    "savepoint taken, then drain",
    "savepoint taken, then run on",
    "savepoint taken, then suspend",
    "splits discovered while running",
    "splits forgotten",
    "started from a savepoint at a new location",
)
"""Ways through failure and back that a campaign must have seen.

Not among them: a checkpoint given up for a chunk nobody may name. ``Chain.safe_links`` rules that out; only a mutant shows it.
"""


@dataclass(slots=True)
class Part:
    """The sum over some seeds."""

    seeds: int = 0
    simulated_ms: int = 0
    cpu_s: float = 0.0
    tally: Tally = field(default_factory=Tally)
    accused: list[tuple[int, str, tuple[str, ...]]] = field(default_factory=list)
    """Seed, query, violations."""

    def add(self, other: Part) -> None:
        self.seeds += other.seeds
        self.simulated_ms += other.simulated_ms
        self.cpu_s += other.cpu_s
        self.tally.add(other.tally)
        self.accused += other.accused


def run_many(seeds: range, processes: int, *, only_timed: bool = False) -> int:
    """Prints progress, violations as they are found, and the table. 1: something was violated or never happened.

    Every seed is a history of the protocol, and a small world of event time; ``only_timed``: the latter alone.
    """
    began_s, total, said_s = time.monotonic(), Part(), time.monotonic()
    for part in _parts(seeds, processes, only_timed):
        total.add(part)
        for seed, query, violations in part.accused:
            say(
                f"seed {seed} ({query}); replay: make simulate SEED={seed}{' EVENT_TIME=1' if ' over ' in query else ''}"
            )
            for violation in violations[:5]:
                say(f"  VIOLATION {violation[:500]}")
        if time.monotonic() - said_s > 10:
            said_s = time.monotonic()
            say(f"{total.seeds} of {len(seeds)} seeds, {len(total.accused)} with violations, {said_s - began_s:.0f} s")
    return _report(total, time.monotonic() - began_s, only_timed=only_timed)


def _parts(seeds: range, processes: int, only_timed: bool) -> Iterator[Part]:
    tasks = [seeds[start : start + SEEDS_PER_TASK] for start in range(0, len(seeds), SEEDS_PER_TASK)]
    if processes <= 1 or len(tasks) == 1:
        yield from (_run(task, only_timed) for task in tasks)
        return
    # The frames are tiny: threads inside Polars would only fight over the processors. Workers read this when they start.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_run, task, only_timed) for task in tasks]):
            yield done.result()


def _run(seeds: range, only_timed: bool) -> Part:
    from tidegate.testing.simulation.checked import checked, checked_time

    part = Part()
    for seed in seeds:
        for judge in (checked_time,) if only_timed else (checked, checked_time):
            began_s = time.process_time()
            verdict = judge(seed)
            counts = 1 if judge is checked or only_timed else 0
            part.add(Part(counts, verdict.simulated_ms, time.process_time() - began_s, verdict.tally))
            if verdict.violations:
                part.accused.append((seed, verdict.query, verdict.violations))
    return part


def _report(total: Part, seconds: float, *, only_timed: bool) -> int:
    faults, paths = total.tally.faults, total.tally.paths
    kinds, expected = ((), TIMED_PATHS) if only_timed else (Faults().kinds, (*PATHS, *TIMED_PATHS))
    for kind in Faults().kinds:
        say(f"  fault {kind:<50} {faults[kind]:>8}")
    for path in sorted({*expected, *paths}):
        say(f"  path  {path:<50} {paths[path]:>8}")
    say(
        f"{total.seeds} seeds, {total.simulated_ms / 3_600_000:.1f} simulated hours, {len(total.accused)} with violations, "
        f"{seconds:.0f} s ({total.cpu_s / max(total.seeds, 1):.2f} CPU-seconds per seed)"
    )
    never = [*(kind for kind in kinds if not faults[kind]), *(path for path in expected if not paths[path])]
    if never and total.seeds >= SEEDS_FOR_ALL:
        say(f"never seen: {', '.join(never)}")
    return 1 if total.accused or (never and total.seeds >= SEEDS_FOR_ALL) else 0


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
