"""`make fuzz`: SEEDS=2000 random programs against Spark batch, or one with SEED=n. Exit code 1 when any differs."""

from __future__ import annotations

import argparse
import sys
import time

from tests.differential.fuzz.campaign import Campaign

from tidegate.spark.session import local_session


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, help="one program, printed, and made small if it fails")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    began_s = time.monotonic()
    spark = local_session("tidegate-fuzz", cores=2)
    campaign = Campaign(spark)
    try:
        for seed in seeds:
            failure = campaign.run(seed)
            if failure:
                print(failure, flush=True)
            if arguments.seed is not None:
                print(campaign.told(seed))
            if (seed - seeds.start + 1) % 200 == 0:
                print(f"{seed - seeds.start + 1} programs, {time.monotonic() - began_s:.0f} s", flush=True)
    finally:
        campaign.close()
        spark.stop()
    print(campaign.summary())
    print(f"{time.monotonic() - began_s:.0f} seconds")
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main())
