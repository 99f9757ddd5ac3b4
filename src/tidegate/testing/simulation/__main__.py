"""``python -m tidegate.testing.simulation``: many seeds, or one of them event by event."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields

from tidegate.testing.simulation.faults import Faults, Tally
from tidegate.testing.simulation.world import Simulation, Verdict


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="simulate", description="Run the real core in a simulated, failing world.")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="replay one seed, event by event")
    parser.add_argument("--digests", action="store_true", help="print the digest of every run's history")
    options = parser.parse_args(arguments)
    if options.seed is not None:
        return _replay(options.seed)
    return _run_many(range(options.first, options.first + options.seeds), digests=options.digests)


def _replay(seed: int) -> int:
    verdict = Simulation(seed, keep_trace=True).run()
    sys.stdout.write("\n".join(verdict.trace) + "\n")
    _print(verdict)
    return 1 if verdict.violations else 0


def _run_many(seeds: range, *, digests: bool) -> int:
    total, bad, simulated_ms = Tally(), 0, 0
    for done, seed in enumerate(seeds, start=1):
        verdict = Simulation(seed).run()
        total.add(verdict.tally)
        simulated_ms += verdict.simulated_ms
        if verdict.violations:
            bad += 1
            _print(verdict)
        if digests:
            sys.stdout.write(f"{seed} {verdict.digest}\n")
        elif done % 50 == 0:
            sys.stdout.write(f"{done} of {len(seeds)} seeds, {bad} with violations\n")
            sys.stdout.flush()
    if digests:
        return 1 if bad else 0
    for kind in (one.name for one in fields(Faults)):
        sys.stdout.write(f"  fault {kind:<22} {total.faults[kind]:>7}\n")
    for path, count in sorted(total.paths.items()):
        sys.stdout.write(f"  path  {path:<34} {count:>7}\n")
    never = [one.name for one in fields(Faults) if not total.faults[one.name]]
    sys.stdout.write(f"{len(seeds)} seeds, {simulated_ms / 3_600_000:.1f} simulated hours, {bad} with violations\n")
    if never and len(seeds) >= 100:
        sys.stdout.write(f"these faults never occurred: {', '.join(never)}\n")
        return 1
    return 1 if bad else 0


def _print(verdict: Verdict) -> None:
    sys.stdout.write(f"seed {verdict.seed} ({verdict.query}), {verdict.steps} steps, {verdict.simulated_ms} ms\n")
    for violation in verdict.violations:
        sys.stdout.write(f"  VIOLATION {violation}\n")
    if verdict.violations:
        sys.stdout.write(f"  replay: make simulate SEED={verdict.seed}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
