"""``python -m tidegate.testing.model``: visit every small world; print how many, or the shortest way to harm.

``--without RULE`` removes one rule and must find a counter-example: then the exit code is 0 as well, and 1 when none is found.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable

from tidegate.checkpoint.plan import RULE_SWITCHES, Rules, without
from tidegate.testing.model.search import Exhausted, Holds, Violated, check
from tidegate.testing.model.world import Bounds
from tidegate.testing.model.worlds import FULL, SMALL, harmful


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tidegate.testing.model", description=__doc__)
    parser.add_argument(
        "--without",
        choices=[*map(str, RULE_SWITCHES), "each"],
        metavar="RULE",
        help="remove rule 1 … 9 (or each in turn) and show the harm",
    )
    parser.add_argument("--small", action="store_true", help="the worlds of the test suite only")
    parser.add_argument("--world", choices=[one.name for one in FULL], metavar="NAME", help="one world only")
    parser.add_argument("--states-max", type=int, default=5_000_000, help="give up on a world with more states")
    options = parser.parse_args(arguments)
    if options.without == "each":
        return max(_show_harm(rule) for rule in RULE_SWITCHES)
    if options.without is not None:
        return _show_harm(int(options.without))
    chosen = [one for one in FULL if one.name == options.world] if options.world else SMALL if options.small else FULL
    return _check_all(chosen, states_max=options.states_max)


def _check_all(chosen: Iterable[Bounds], *, states_max: int) -> int:
    began, worlds, moves = time.monotonic(), 0, 0
    for bounds in chosen:
        since = time.monotonic()
        verdict = check(bounds, Rules(), worlds_max=states_max)
        match verdict:
            case Holds():
                worlds, moves = worlds + verdict.worlds, moves + verdict.moves
                _say(
                    f"{bounds.name:<28} {verdict.worlds:>9,} worlds {verdict.moves:>10,} moves "
                    f"depth {verdict.depth:>3} {time.monotonic() - since:6.1f} s"
                )
            case Violated():
                _say(f"{bounds.name}: VIOLATION after {verdict.worlds:,} worlds\n{verdict}")
                return 1
            case Exhausted():
                _say(f"{bounds.name}: more than {verdict.worlds:,} worlds: its bounds are too wide to be checked")
                return 1
    _say(f"no violation in {worlds:,} worlds and {moves:,} moves ({time.monotonic() - began:.1f} s)")
    return 0


def _show_harm(rule: int) -> int:
    bounds = harmful(rule)
    verdict = check(bounds, without(rule))
    name = RULE_SWITCHES[rule].replace("_", " ")
    if isinstance(verdict, Violated):
        _say(f"without rule {rule} ({name}), {len(verdict.trace)} steps to harm:\n{verdict}\n")
        return 0
    _say(f"without rule {rule} ({name}): no counter-example in {verdict.worlds:,} worlds")
    return 1


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
