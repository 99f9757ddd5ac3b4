"""What the whole-query tests share: seeded trips in files, waiting for conditions, equality with Spark batch, families of processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
import psutil
import pyarrow as pa
from pyspark.sql import DataFrame
from tests.differential.compare import difference

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = "ts timestamp, station bigint, minutes bigint, fare double"
Found = TypeVar("Found")


def add_trips(folder: Path, number: int, rows: int = 5_000) -> None:
    """File ``number``: one trip every 100 ms, the files one after the other in time, each row up to a second out of order."""
    at = pl.int_range(number * rows, (number + 1) * rows, eager=True)
    shaken_us = at * 100_000 - (at * 7919 % 11) * 100_000 + 2_000_000
    trips = pl.DataFrame(
        {
            "ts": shaken_us.cast(pl.Datetime("us")).dt.replace_time_zone("UTC"),
            "station": at * 31 % 23,
            "minutes": at * 17 % 90,
            # Dyadic: sums are exact in any order.
            "fare": (at * 13 % 400) / 8,
        }
    )
    folder.mkdir(exist_ok=True)
    # Renamed into place: a stream must never see half a file.
    trips.write_parquet(folder / f".{number:03}.tmp")
    (folder / f".{number:03}.tmp").rename(folder / f"{number:03}.parquet")


def slow_while(flag: Path, batch_s: float) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For ``mapInArrow``: passes every batch on, so long after it came while ``flag`` exists. There is a middle to be killed in for as
    long as a test needs it, and no work left to wait for afterwards.
    """
    path = str(flag)

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if Path(path).exists():
                time.sleep(batch_s)
            yield batch

    return slowly


def wait_until(condition: Callable[[], Found], what: str, timeout_s: float = 150.0) -> Found:
    """The first truthy answer of ``condition``. Raises what it raises; fails, naming ``what``, after ``timeout_s``."""
    give_up = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < give_up, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.02)
    return found


def while_active(query: Any, condition: Callable[[], Found], what: str, timeout_s: float = 150.0) -> Found:
    """Like ``wait_until``, but a query that ends meanwhile is a failure of the test, and is shown."""

    def checked() -> Found:
        found = condition()
        assert found or query.isActive, f"the query ended before {what}: {query.exception()}"
        return found

    return wait_until(checked, what, timeout_s)


def assert_same_rows(result: DataFrame, expected: DataFrame) -> int:
    """Row for row, as multisets. Returns how many: a comparison of nothing proves nothing, so it must not be 0."""
    assert result.columns == expected.columns
    wanted = [tuple(row) for row in expected.collect()]
    problem = difference(expected.columns, wanted, [tuple(row) for row in result.collect()])
    assert not problem, f"differs from Spark batch: {problem}"
    assert wanted, "nothing was compared"
    return len(wanted)


def files_below(folder: Path) -> list[str]:
    return (
        sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) if folder.exists() else []
    )


# --- drivers in processes of their own ---------------------------------------------------------------------------------


class Driver:
    """A driver script in a process of its own, and everybody it started. Ends with the ``with`` block, whatever happens."""

    def __init__(
        self, script: str, folder: Path, *, before: Callable[[], None] | None = None, **arguments: Any
    ) -> None:
        """``before``: runs in the new process before it becomes the driver."""
        path = folder / "driver.py"
        path.write_text(script)
        self.log = folder / f"driver-{time.monotonic_ns()}.log"
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
        with self.log.open("wb") as log:
            command = [sys.executable, str(path), json.dumps({"folder": str(folder), **arguments})]
            self.process = subprocess.Popen(
                command, env=environment, preexec_fn=before, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._known: dict[int, psutil.Process] = {}

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *failure: object) -> None:
        self.family()
        for one in self._known.values():
            if alive(one):
                one.kill()
        self.process.wait()

    def says(self, word: str) -> list[str]:
        """What stands behind ``word`` on the next line; fails with the driver's own words if it ends instead."""
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        assert words and words[0] == word, f"expected {word!r}, heard {words}:\n{self.errors()}"
        return words[1:]

    def errors(self) -> str:
        return self.log.read_text()[-4000:]

    def family(self) -> list[psutil.Process]:
        """The driver and all its descendants seen so far."""
        try:
            root = psutil.Process(self.process.pid)
            for one in [root, *root.children(recursive=True)]:
                self._known[one.pid] = one
        except psutil.NoSuchProcess:
            pass
        return list(self._known.values())


def alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def assert_gone(processes: Iterable[psutil.Process], within_s: float) -> None:
    everyone = list(processes)
    assert everyone
    give_up = time.monotonic() + within_s
    while left := [one for one in everyone if alive(one)]:
        assert time.monotonic() < give_up, (
            f"alive after {within_s:.0f} s: {[(one.pid, one.cmdline()[:4]) for one in left]}"
        )
        time.sleep(0.1)
