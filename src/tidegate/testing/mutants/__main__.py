"""``python -m tidegate.testing.mutants``: plant every bug in turn; exit code 1 when a judge overlooks one."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import msgspec

from tidegate.testing.mutants.catalogue import BY_NAME, MUTANTS, QUICK
from tidegate.testing.mutants.hunting import Killed, Survived, hunt
from tidegate.testing.mutants.mutant import Mutant
from tidegate.testing.mutants.runner import run


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tidegate.testing.mutants", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=sorted(BY_NAME), metavar="NAME", help="these mutants")
    parser.add_argument("--quick", action="store_true", help="the ten that are found fastest")
    parser.add_argument("--list", action="store_true", help="what there is, without hunting")
    parser.add_argument("--hunt", choices=sorted(BY_NAME), metavar="NAME", help="one, in this process; prints JSON")
    options = parser.parse_args(arguments)
    if options.hunt is not None:
        _say(msgspec.json.encode(hunt(BY_NAME[options.hunt])).decode())
        return 0
    chosen = [BY_NAME[name] for name in options.only] if options.only else list(QUICK if options.quick else MUTANTS)
    if options.list:
        for mutant in chosen:
            _say(f"{mutant.name:<48} {mutant.against:<10} {mutant.harm}")
        return 0
    return _run(chosen)


def _run(chosen: Sequence[Mutant]) -> int:
    began_s, survivors = time.monotonic(), 0
    _say(f"{'mutant':<48} {'against':<10} {'killed by':<38} {'after':<26} {'s':>5}  first sign")
    for mutant, verdict in run(chosen):
        match verdict:
            case Killed(by, effort, sign, seconds):
                _say(f"{mutant.name:<48} {mutant.against:<10} {by:<38} {effort:<26} {seconds:5.1f}  {sign[:100]}")
            case Survived(why, seconds):
                survivors += 1
                _say(f"{mutant.name:<48} {mutant.against:<10} {'SURVIVED':<38} {'':<26} {seconds:5.1f}  {why}")
    took = f"{time.monotonic() - began_s:.0f} s"
    _say(f"{len(chosen)} mutants, {len(chosen) - survivors} killed, {survivors} survived ({took})")
    return 1 if survivors else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
