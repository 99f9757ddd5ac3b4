"""Seeds shared out to several processes, each with a Spark session of its own. What a seed means does not depend on it."""

from __future__ import annotations

import functools
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing.util import Finalize

from tests.differential.fuzz.campaign import PROGRAMS_PER_TABLES, Campaign
from tests.differential.fuzz.tally import Tally

from tidegate.spark.session import local_session

TOLD_EVERY = 200


def run_all(seeds: range, jobs: int) -> Tally:
    """In pieces whose programs share their rows; progress after every two hundred programs."""
    began_s = time.monotonic()
    size = PROGRAMS_PER_TABLES
    pieces = [range(low, min(low + size, seeds.stop)) for low in range(seeds.start, seeds.stop, size)]
    tally, told = Tally(), 0
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for piece in as_completed([pool.submit(run, piece) for piece in pieces]):
            tally.add(piece.result())
            if tally.counts.total() // TOLD_EVERY > told:
                told = tally.counts.total() // TOLD_EVERY
                print(f"{tally.counts.total()} programs, {time.monotonic() - began_s:.0f} s", flush=True)
    return tally


def run(seeds: range) -> Tally:
    """In this process's session; differences are printed as they are found."""
    judged = campaign()
    judged.tally = Tally()
    for seed in seeds:
        failure = judged.run(seed)
        if failure:
            print(failure, flush=True)
    return judged.tally


@functools.cache
def campaign() -> Campaign:
    """The one of this process; its files go with it."""
    made = Campaign(local_session("tidegate-fuzz", cores=1))
    Finalize(None, made.close, exitpriority=1)
    return made
