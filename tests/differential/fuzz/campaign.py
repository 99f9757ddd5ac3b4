"""Many seeds, one report: what was equal, what was refused and why, what differs and the small program that shows it."""

from __future__ import annotations

import logging
from collections import Counter

from pyspark.sql import SparkSession
from tests.differential.fuzz.data import Tables, tables
from tests.differential.fuzz.endings import Ending
from tests.differential.fuzz.generator import random_program
from tests.differential.fuzz.judge import DIFFERENT, EQUAL, QUICK, REFUSED, UNANSWERED, Judge, Verdict, fate_of
from tests.differential.fuzz.shrinking import shrink

PROGRAMS_PER_TABLES = 25
"""Programs in a row share their rows: writing and describing them costs more than running over them."""
SHRUNK_MAX = 20
"""Failures that are made small; the rest are shown as they are."""


class Campaign:
    """Sets ``SETTINGS`` in the session it is given."""

    SETTINGS = QUICK

    def __init__(self, spark: SparkSession) -> None:
        for name, value in self.SETTINGS.items():
            spark.conf.set(name, value)
        # Programs made smaller may be wrong on purpose: Spark's complaints about them are not news.
        logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
        self._judge = Judge(spark)
        self._tables: dict[int, Tables] = {}
        self.counts: Counter[str] = Counter()
        self.reasons: dict[str, Counter[str]] = {REFUSED: Counter(), UNANSWERED: Counter()}
        self.failures: list[int] = []
        self.empty = 0

    def close(self) -> None:
        self._judge.close()

    def run(self, seed: int) -> str:
        """Empty, or the report of a difference."""
        program, rows, fate = random_program(seed), self._rows(seed), fate_of(seed)
        verdict = self._judge.judge(program, rows, fate)
        self.counts[verdict.kind] += 1
        self.empty += verdict.kind == EQUAL and not verdict.rows
        if verdict.kind in self.reasons:
            self.reasons[verdict.kind][verdict.why] += 1
        if verdict.kind != DIFFERENT:
            return ""
        self.failures.append(seed)
        return self._report(seed, program, rows, verdict)

    def told(self, seed: int) -> str:
        return f"{random_program(seed).text}\n# {fate_of(seed)}\n{dict(self.counts)} {self.reasons}"

    def summary(self) -> str:
        total = self.counts.total()
        lines = [
            f"{total} programs: {self.counts[EQUAL]} equal ({self.empty} of them empty), {len(self.failures)} different, "
            f"{self.counts[REFUSED]} refused by Tidegate, {self.counts[UNANSWERED]} without an answer of Spark"
        ]
        for kind in (REFUSED, UNANSWERED):
            lines += [f"  {kind}, {count} times: {why}" for why, count in self.reasons[kind].most_common(8)]
        if self.failures:
            lines.append(f"again: make fuzz SEED=n, n of {self.failures}")
        return "\n".join(lines)

    def _rows(self, seed: int) -> Tables:
        group = seed // PROGRAMS_PER_TABLES
        if group not in self._tables:
            self._tables = {group: tables(group * 1_000)}
        return self._tables[group]

    def _report(self, seed: int, program: Ending, rows: Tables, verdict: Verdict) -> str:
        fate = fate_of(seed)
        if len(self.failures) <= SHRUNK_MAX:

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
