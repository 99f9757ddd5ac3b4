"""One program on both engines: equal, different, or refused by one of them."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from tests.differential import local
from tests.differential.compare import Rules, difference
from tests.differential.fuzz.data import FuzzSources, Tables
from tests.differential.fuzz.endings import Ending
from tests.differential.harness import last_per_key

from tidegate.model.errors import InvalidQuery
from tidegate.testing.local import UNHARMED, Fate, random_fate

EQUAL, DIFFERENT, REFUSED, UNANSWERED = "equal", "different", "refused", "unanswered"


@dataclass(frozen=True, slots=True)
class Verdict:
    """``refused``: Tidegate says at the start that it cannot; ``unanswered``: Spark batch itself fails over these rows."""

    kind: str
    why: str = ""
    rows: int = 0


class Judge:
    """Keeps one Spark session busy with small local jobs; scratch files live until ``close``."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._folder = Path(tempfile.mkdtemp(prefix="tidegate-fuzz-"))
        self._number = 0
        self._sources: dict[int, tuple[FuzzSources, FuzzSources]] = {}

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def judge(self, program: Ending, of: Tables, fate: Fate = UNHARMED) -> Verdict:
        streams, batch = self._open(of)
        try:
            expected_df = evaluate(program, batch)
            expected = [tuple(row) for row in expected_df.collect()]
        except (PySparkException, Py4JError) as error:
            return Verdict(UNANSWERED, _line(error))
        try:
            plan = local.translated(evaluate(program, streams), program.mode)
        except InvalidQuery as refusal:
            return Verdict(REFUSED, _line(refusal))
        except PySparkException as error:
            return Verdict(UNANSWERED, _line(error))
        except Exception as error:  # noqa: BLE001  a refusal is an InvalidQuery, and nothing else
            return Verdict(DIFFERENT, f"Tidegate cannot read the query: {type(error).__name__}: {error}")
        try:
            columns, actual, _ = local.run(plan, fate, rows=len(of.events) + len(of.more))
        except Exception as error:  # noqa: BLE001  whatever it is, Spark had an answer
            return Verdict(DIFFERENT, f"Spark answers, Tidegate raises {type(error).__name__}: {error}")
        if program.mode == "update":
            actual = last_per_key(columns, actual, program.keys)
        if columns != expected_df.columns:
            return Verdict(DIFFERENT, f"columns: expected {expected_df.columns}, got {columns}")
        problem = difference(columns, expected, actual, Rules(approximate=program.approximate, keys=program.keys))
        return Verdict(DIFFERENT, problem) if problem else Verdict(EQUAL, rows=len(expected))

    def _open(self, of: Tables) -> tuple[FuzzSources, FuzzSources]:
        key = id(of)
        if key not in self._sources:
            root = self._folder / str(self._number)
            self._number += 1
            of.write(root)
            self._sources = {key: (FuzzSources(self._spark, of, root), FuzzSources(self._spark, of, None))}
        return self._sources[key]


def evaluate(program: Ending, sources: FuzzSources) -> DataFrame:
    """Runs the very text that a failure prints."""
    known: dict[str, Any] = {"s": sources, "F": F}
    return eval(f"({program.text}\n)", known)


def fate_of(seed: int) -> Fate:
    """Half of all runs are killed, some twice."""
    random = Random(seed)
    return random_fate(random, kills=random.choice((0, 0, 1, 2)), batch_rows=60)


def _line(error: BaseException) -> str:
    return str(error).splitlines()[0][:300]
