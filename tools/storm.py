#!/usr/bin/env python3
"""Part of `make chaos`: three minutes of windows and running aggregates on real Spark while everything around them dies or freezes.

Every 8 s a random slot gets kill -9, every 30 s the driver, and every 13 s a slot, the driver or its JVM is stopped for 5 s. A driver
that died is started again on the same checkpoint locations, and is not killed again before it has completed a checkpoint. At the end
the windows in Parquet must be Spark batch's row for row, and the last row of every key of the running aggregate as well.

    python tools/storm.py [--seconds 180] [--seed N] [--checkpoints disk|s3|hdfs]
    python tools/storm.py --skewed                kills of slots, with barriers skewed on purpose: right all the same
    python tools/storm.py --harm at-least-once    the same kills in at-least-once mode: bids count twice
    python tools/storm.py --harm alignment        the same in exactly-once mode, with the alignment taken out of the slots
    python tools/storm.py --harm look             a coordinator that does not look for its successor: rows repeat

Exit code 0: the output was right, or, with --harm, the harness did see the damage.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from storm_processes import DriverProcess, await_file
from storm_program import (
    DRIVER_KILLS,
    FREEZES,
    NEVER,
    PROCESS_KINDS,
    arguments,
    in_a_folder,
    put_work,
    result_of,
    verdict,
    weather_of,
)
from storm_stores import STORES, Home, home
from storming import AFTER_STORM_S, Storm, what_is_missing

SKEWED_SECONDS = 25.0
LOOK_SECONDS = 12.0
LONGER = (1, 2, 4)
"""How long the storm is, of what was asked for, if the shorter ones said nothing."""


class SaysNothing(Exception):
    """The output was right, but not everything that was due had happened."""


def main() -> int:
    parser = arguments(__doc__, 180.0, PROCESS_KINDS)
    parser.add_argument("--harm", choices=("at-least-once", "alignment", "look"))
    parser.add_argument("--skewed", action="store_true")
    parser.add_argument("--checkpoints", choices=STORES, default="disk", help="where checkpoints live")
    options = parser.parse_args()

    def run_there(folder: Path) -> int:
        if options.harm == "look":
            return see_harm_without_the_look(folder)
        for seconds in (options.seconds * longer for longer in LONGER):
            there = folder / f"{seconds:.0f}"
            there.mkdir()
            with home(options.checkpoints, there) as place, suppress(SaysNothing):
                return run(there, place, options, seconds)
        print("FAILED: nothing was learned", flush=True)
        return 1

    return in_a_folder(run_there)


def run(folder: Path, place: Home, options: argparse.Namespace, seconds: float) -> int:
    """The exit code. Raises SaysNothing when the queries were at their end before everything had happened: a busy machine starts
    them so late that their source, which goes by the clock, has all its events ready."""
    harm: str | None = options.harm
    weather = weather_of(options, PROCESS_KINDS)
    what = f"{seconds:.0f} s of kills and freezes, checkpoints on {options.checkpoints}"
    skewed = options.skewed or harm is not None
    if skewed:
        seconds, weather = SKEWED_SECONDS, {**weather, DRIVER_KILLS.name: NEVER, FREEZES.name: NEVER}
        what = f"the harm of '{harm}'" if harm else f"{seconds:.0f} s of kills with skewed barriers"
    print(f"storm: {what}, replay with --seed {options.seed}", flush=True)
    put_work(folder, work(seconds, harm, place, skewed=skewed))
    with Storm(folder, seconds, weather, random.Random(options.seed), needs_skew=skewed) as storm:
        problem = storm.rage()
    if problem:
        print(f"FAILED: {problem}", flush=True)
        return 1
    result = result_of(folder)
    if storm.missing and not result["problems"]:
        print(f"storm: {what_is_missing(storm)}", flush=True)
        raise SaysNothing
    return verdict(result, storm.summary(), harm)


def work(seconds: float, harm: str | None, place: Home, *, skewed: bool = False, gates: bool = False) -> dict:
    """What the drivers are to do."""
    checkpoints = {"location": place.location, "storage": place.options}
    return {"seconds": seconds, "harm": harm, "skewed": skewed, "gates": gates, **checkpoints}


def see_harm_without_the_look(folder: Path) -> int:
    """Driver A has all acknowledgements of a checkpoint and is held before it stores the manifest. B takes over and is held before
    its sweep. A goes on: with the look it sees B's claim and stops; without it, it commits what B is about to compute again."""
    results = {}
    for harm in (None, "look"):
        place = folder / ("without" if harm else "with")
        place.mkdir()
        put_work(place, work(LOOK_SECONDS, harm, Home(str(place)), gates=True))
        print(f"storm: two drivers, {place.name} the look", flush=True)
        with driver(place, "A") as first:
            await_file(place / "A-holds-manifest", first)
            print(
                "storm: A has all acknowledgements of a checkpoint with output and is held before its manifest",
                flush=True,
            )
            with driver(place, "B") as second:
                await_file(place / "B-holds-sweep", second)
                print("storm: B has taken over and is held before its sweep; A goes on", flush=True)
                (place / "A-may-go-on").touch()
                await_file(place / "A-is-done", first)
                print(f"storm: A has ended: {(place / 'A-is-done').read_text() or 'as if it were alone'}", flush=True)
                (place / "B-may-go-on").touch()
                await_file(place / "result.json", second, AFTER_STORM_S)
        results[harm] = result_of(place)
    if results[None]["problems"]:
        print(f"FAILED: wrong output though the coordinator looks: {results[None]['problems']}")
        return 1
    print(f"storm: with the look: {results[None]['rows']:,} rows equal Spark batch's")
    return verdict(results["look"], "", "look")


@contextmanager
def driver(folder: Path, name: str) -> Iterator[DriverProcess]:
    process = DriverProcess(folder, name)
    try:
        yield process
    finally:
        process.end_all()


if __name__ == "__main__":
    sys.exit(main())
