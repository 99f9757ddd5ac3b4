#!/usr/bin/env python3
"""Part of `make chaos`: many short runs on real Spark, each with a kill -9 of a random slot or of the driver at a random moment.

Every run is judged like the demo: its Parquet output must equal Spark batch over the same bids. A killed driver is started again
on the same checkpoint location, as an operator of the cluster would. Prints each run, then the median time from a slot's kill to the
next checkpoint; exit code 1 if any output was wrong or any process of a dead driver's job was still alive ten seconds later.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
SECONDS, RATE = 14, 20_000
ORPHAN_LIMIT_S = 10.0
RUN_LIMIT_S = 240.0
VOID_RUNS_MAX = 3
RECOVERY_TARGET_S = 3.0


@dataclass
class Outcome:
    """``recovery_s``: from a slot's kill to the next completed checkpoint."""

    kind: str
    problem: str = ""
    rows: int = 0
    recovery_s: float | None = None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return run_query(Path(options.child))
    print(f"chaos: {options.runs} runs, replay with --seed {options.seed}", flush=True)
    chance = random.Random(options.seed)
    outcomes = []
    for number in range(1, options.runs + 1):
        kind = "slot" if number % 2 else "driver"
        outcome = one_valid_run(kind, chance)
        outcomes.append(outcome)
        verdict = outcome.problem or f"{outcome.rows:,} rows equal Spark batch's"
        timing = f", {outcome.recovery_s:.1f} s to the next checkpoint" if outcome.recovery_s else ""
        print(f"chaos: run {number}: kill -9 of a {kind}: {verdict}{timing}", flush=True)
    return summarise(outcomes)


def summarise(outcomes: list[Outcome]) -> int:
    bad = [outcome for outcome in outcomes if outcome.problem]
    recoveries = [outcome.recovery_s for outcome in outcomes if outcome.recovery_s is not None]
    if recoveries:
        # Beside its target, but never a failure: how long it takes says as much about the machine.
        print(
            f"chaos: from the kill of a slot to the next completed checkpoint: median {statistics.median(recoveries):.1f} s "
            f"of {len(recoveries)} kills, longest {max(recoveries):.1f} s (target: median under {RECOVERY_TARGET_S:.0f} s)"
        )
    print(f"{'FAILED' if bad else 'OK'}: {len(outcomes) - len(bad)} of {len(outcomes)} runs exactly once")
    return 1 if bad else 0


def one_valid_run(kind: str, chance: random.Random) -> Outcome:
    """On a busy machine the query may have ended before its victim could be killed: such a run says nothing."""
    for _ in range(VOID_RUNS_MAX):
        outcome = one_run(kind, chance)
        if not outcome.problem.startswith("void"):
            return outcome
        print(f"chaos: {outcome.problem}: again", flush=True)
    return outcome


def one_run(kind: str, chance: random.Random) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="tidegate-chaos-") as name:
        folder = Path(name)
        (folder / "work.json").write_text(
            json.dumps({"kind": kind, "at": chance.uniform(0.0, 0.4), "slot": chance.random()})
        )
        if kind == "driver" and (problem := kill_driver(folder, chance)):
            return Outcome(kind, problem)
        process = start_child(folder)
        try:
            output, _ = process.communicate(timeout=RUN_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return Outcome(kind, f"did not end within {RUN_LIMIT_S:.0f} s")
        if process.returncode or not (folder / "result.json").exists():
            return Outcome(kind, f"exit code {process.returncode}: {output[-2000:]}")
        return Outcome(kind, **json.loads((folder / "result.json").read_text()))


def kill_driver(folder: Path, chance: random.Random) -> str:
    """Starts the query, ends its driver with kill -9 at a random moment, and looks for processes that outlive it."""
    process = start_child(folder)
    deadline_s = time.monotonic() + RUN_LIMIT_S
    while not (folder / "running").exists():
        if ended_within(process, 0.05) or time.monotonic() > deadline_s:
            process.kill()
            return f"the first driver did not get going: {process.communicate()[0][-2000:]}"
    if ended_within(process, chance.uniform(0.0, SECONDS * 0.4)):
        return "void: the driver had ended before it could be killed"
    family = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(family, timeout=ORPHAN_LIMIT_S)
    return f"alive {ORPHAN_LIMIT_S:.0f} s after the driver's death: {[p.pid for p in alive]}" if alive else ""


def ended_within(process: subprocess.Popen[str], seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def start_child(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, __file__, "--child", str(folder)]
    return subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def run_query(folder: Path) -> int:
    """In a process of its own: the query from where it stands to its end, and the comparison."""
    sys.path.insert(0, str(ROOT))
    from examples.demo import top_bids, warm_up

    import tidegate
    from tidegate.connectors.nexmark.datasource import register
    from tidegate.spark.session import local_session

    work = json.loads((folder / "work.json").read_text())
    spark = local_session("tidegate-chaos")
    register(spark)
    # The pace of the bids begins with the query: without this, a slow deploy would eat the time to kill in.
    warm_up(spark)
    source = {"table": "bid", "events": str(SECONDS * RATE), "eventRate": str(RATE), "seed": "3"}
    bids = spark.readStream.format("tidegate-nexmark").options(**source, rate=str(RATE)).load()
    query = (
        tidegate.writeStream(top_bids(bids))
        .format("parquet")
        .option("checkpointLocation", str(folder / "checkpoints"))
        .option("atEnd", "drain")
        .trigger(availableNow=True, checkpoint="1 second")
        .start(str(folder / "output"))
    )
    while query.isActive and query.snapshot().phase != "running":
        query.wait_ended(0.02)
    (folder / "running").touch()
    killed, recovery_s = kill_slot(query, work) if work["kind"] == "slot" else (True, None)
    query.awaitTermination()
    batch = spark.read.format("tidegate-nexmark").options(**source).load()
    expected = Counter(map(tuple, top_bids(batch).collect()))
    actual = Counter(
        map(tuple, spark.read.parquet(str(folder / "output")).select("start", "auction", "bids", "top").collect())
    )
    problem = (
        ""
        if expected == actual
        else f"{(expected - actual).total()} rows missing, {(actual - expected).total()} too many"
    )
    if not killed:
        problem = problem or "void: the query had ended before a slot could be killed"
    (folder / "result.json").write_text(
        json.dumps({"problem": problem, "rows": expected.total(), "recovery_s": recovery_s})
    )
    return 0


def kill_slot(query, work) -> tuple[bool, float | None]:
    """Whether a slot was killed while the query ran, and the seconds to the first checkpoint of a later attempt."""
    query.wait_ended(SECONDS * work["at"])
    pids = sorted(query.snapshot().pids.values())
    if not query.isActive or not pids:
        return False, None
    attempt, killed_s = query.snapshot().attempt, time.monotonic()
    os.kill(pids[int(work["slot"] * len(pids))], signal.SIGKILL)
    ended = False
    while not ended:
        ended = query.wait_ended(0.02)
        last = query.snapshot().history.last_completed()
        if last is not None and last.attempt > attempt:
            return True, time.monotonic() - killed_s
    return True, None


if __name__ == "__main__":
    sys.exit(main())
