"""``python -m tidegate.testing.simulation``: many seeds, or one of them event by event."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from tidegate.testing.simulation.campaign import run_many, say
from tidegate.testing.simulation.checked import checked, checked_time
from tidegate.testing.simulation.themes import themed
from tidegate.testing.simulation.wide import print_work
from tidegate.testing.simulation.world import Simulation, Verdict


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="simulate", description="Run the real core in a simulated, failing world.")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="replay one seed, event by event")
    parser.add_argument("--processes", type=int, default=2, help="worker processes")
    parser.add_argument("--digests", action="store_true", help="print the digest of every run's history")
    parser.add_argument(
        "--event-time", action="store_true", help="only the small worlds that judge which rows are late"
    )
    parser.add_argument("--theme", action="store_true", help="the seed with the theme that its number gives it")
    parser.add_argument("--wide", type=int, nargs="?", const=1_000, help="coordinator work with this many subtasks")
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + options.seeds)
    if options.seed is not None:
        judge = checked_time if options.event_time else themed if options.theme else checked
        return _replay(options.seed, judge)
    if options.wide is not None:
        return print_work(options.wide)
    if options.digests:
        for seed in seeds:
            say(f"{seed} {Simulation(seed).run().digest}")
        return 0
    return run_many(seeds, options.processes, only_timed=options.event_time)


def _replay(seed: int, judge: Callable[..., Verdict]) -> int:
    verdict = judge(seed, keep_trace=True)
    sys.stdout.write("\n".join(verdict.trace) + "\n")
    say(f"seed {seed} ({verdict.query}): {verdict.steps} steps, {verdict.simulated_ms} simulated ms")
    for violation in verdict.violations:
        say(f"  VIOLATION {violation}")
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    raise SystemExit(main())
