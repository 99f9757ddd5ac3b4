"""Many seeds, one report: what was equal, what was refused and why, what differs and the small program that shows it."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession
from tests.differential.fuzz.data import Tables, tables
from tests.differential.fuzz.endings import Ending
from tests.differential.fuzz.generator import random_program
from tests.differential.fuzz.judge import DIFFERENT, Judge, Verdict, fate_of
from tests.differential.fuzz.shrinking import shrink
from tests.differential.fuzz.tally import Tally
from tests.differential.harness import QUICK

PROGRAMS_PER_TABLES = 25
"""Programs in a row share their rows: writing and describing them costs more than running over them."""
SHRUNK_MAX = 20
"""Failures that are made small; the rest are shown as they are."""


class Campaign:
    """Sets ``QUICK`` in the session it is given."""

    def __init__(self, spark: SparkSession) -> None:
        for name, value in QUICK.items():
            spark.conf.set(name, value)
        # Programs made smaller may be wrong on purpose: Spark's complaints about them are not news.
        logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
        self._judge = Judge(spark)
        self._tables: dict[int, Tables] = {}
        self._shrunk = 0
        self.tally = Tally()

    def close(self) -> None:
        self._judge.close()

    def run(self, seed: int) -> str:
        """Empty, or the report of a difference."""
        program, rows, fate = random_program(seed), self._rows(seed), fate_of(seed)
        verdict = self._judge.judge(program, rows, fate)
        self.tally.count(seed, verdict)
        return self._report(seed, program, rows, verdict) if verdict.kind == DIFFERENT else ""

    def told(self, seed: int) -> str:
        return f"{random_program(seed).text}\n# {fate_of(seed)}"

    def _rows(self, seed: int) -> Tables:
        group = seed // PROGRAMS_PER_TABLES
        if group not in self._tables:
            self._tables = {group: tables(group * 1_000)}
        return self._tables[group]

    def _report(self, seed: int, program: Ending, rows: Tables, verdict: Verdict) -> str:
        fate = fate_of(seed)
        if self._shrunk < SHRUNK_MAX:
            self._shrunk += 1

            def fails(smaller: Ending, fewer: Tables) -> bool:
                return self._judge.judge(smaller, fewer, fate).kind == DIFFERENT

            program, rows = shrink(program, rows, fails)
            verdict = self._judge.judge(program, rows, fate)
        shown = "\n".join(f"    {name}: {row}" for name in ("events", "more") for row in rows.of(name)[:6])
        return (
            f"--- seed {seed}, {program.mode} mode, {fate}\n{program.text}\n"
            f"  over {len(rows.events)} events and {len(rows.more)} more:\n{shown}\n{verdict.why}\n"
            f"  again: make fuzz SEED={seed}"
        )
