"""`make fuzz`: SEEDS=2000 random programs against Spark batch, or one with SEED=n. Exit code 1 when any differs."""

from __future__ import annotations

import argparse
import os
import sys
import time

from tests.differential.fuzz.pieces import campaign, run, run_all
from tests.jvm import prefer_short_lives


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, help="one program, printed, and made small if it fails")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes with a Spark session each")
    arguments = parser.parse_args()
    prefer_short_lives()
    began_s = time.monotonic()
    if arguments.seed is not None:
        tally = run(range(arguments.seed, arguments.seed + 1))
        print(campaign().told(arguments.seed))
    else:
        tally = run_all(range(arguments.first, arguments.first + arguments.seeds), arguments.jobs)
    print(tally.summary())
    print(f"{time.monotonic() - began_s:.0f} seconds")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
