"""Many seeds in several processes: what happened, how often, and what the auditors found."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context

from tidegate.testing.simulation.faults import Faults, Tally
from tidegate.testing.simulation.timed_campaign import TIMED_PATHS
from tidegate.testing.simulation.world import Verdict

SEEDS_PER_TASK = 10
SEEDS_FOR_ALL = 1_000
"""With this many seeds every kind of fault and every path must have occurred."""

PATHS = (
    "attempt failed: SLOT_LOST",
    "attempt failed: USER_CODE_FAILED",
    "both pipelines of a job die together",
    "changed query: a stateful operator more",
    "changed query: it goes on from a checkpoint",
    "changed query refused: rows are on their way",
    "changed query refused: state would go",
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
    "judged: a whole result",
    "judged: at least once",
    "judged: dead letters",
    "judged: exactly once",
    "judged: full join of streams",
    "judged: right join of streams",
    "judged: rows of lost checkpoints come twice",
    "judged: several sinks",
    "judged: thousands of keys",
    "judged: two pipelines of one job",
    "only what is left of a commit is asked for again",
    "only what is left of a restored commit is asked for again",
    "refused: everything since a copy was made is missing",
    "refused: missing files were brought back",
    "refused: the newest manifest is missing",
    "refused: went on although rows come twice",
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
    "state: a deletion restored over an older chunk with its key",
    "state: an entry deleted while it was being copied",
    "state: chunks merged",
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
    accused: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    """Seed and how to replay it, query, violations."""

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
            say(f"{query}; replay: make simulate SEED={seed}")
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
    from tidegate.testing.simulation.themes import EVERY, themed

    judges = (checked_time,) if only_timed else (checked, checked_time)
    part = judged_by(judges, seeds)
    if not only_timed:
        part.add(judged_by((themed,), (seed for seed in seeds if seed % EVERY == 0), " THEME=1"))
    return replace(part, seeds=len(seeds))


def judged_by(judges: Iterable[Callable[[int], Verdict]], seeds: Iterable[int], how: str = "") -> Part:
    """Every seed before every judge. ``seeds`` counts histories; ``how``: what a replay needs beside the seed."""
    part = Part()
    for seed in seeds:
        for judge in judges:
            began_s = time.process_time()
            verdict = judge(seed)
            part.add(Part(1, verdict.simulated_ms, time.process_time() - began_s, verdict.tally))
            if verdict.violations:
                timed = " EVENT_TIME=1" if " over " in verdict.query else ""
                part.accused.append((f"{seed}{timed}{how}", verdict.query, verdict.violations))
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
    never = never_seen(total, kinds, expected)
    if never and total.seeds >= SEEDS_FOR_ALL:
        say(f"never seen: {', '.join(never)}")
    return 1 if total.accused or (never and total.seeds >= SEEDS_FOR_ALL) else 0


def never_seen(part: Part, kinds: Iterable[str], paths: Iterable[str]) -> list[str]:
    """Faults and paths that did not occur: about them the campaign says nothing."""
    return [
        *(kind for kind in kinds if not part.tally.faults[kind]),
        *(path for path in paths if not part.tally.paths[path]),
    ]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
