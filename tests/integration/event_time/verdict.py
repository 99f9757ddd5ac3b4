"""What is wrong with a run on Tidegate, beside the same scenario on Structured Streaming and as a batch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from tests.integration.event_time.engines import Multiset, Run, run_as_batch, run_on_spark
from tests.integration.event_time.scenario import Scenario

SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class Oracle:
    """``batch``: all there is to find; ``closed``: of it what Spark's last watermark has closed."""

    scenario: Scenario
    spark: Run
    batch: Multiset
    closed: Multiset

    @property
    def dropped_by_spark(self) -> int:
        return (self.closed - self.spark.moments[-1]).total()

    @property
    def due(self) -> Multiset:
        """What is in Tidegate's result at the end, unless it was dropped."""
        return self.batch if self.scenario.trigger == "drained" else self.closed

    def problems(self, run: Run) -> list[str]:
        """Empty: every row that Spark gives when it gives it, none that batch lacks, none twice, and late is what is missing."""
        return [
            *self._against_spark(run),
            *_unless_empty("that batch lacks", run.moments[-1] - self.batch),
            *self._late(run),
            *([f"{run.restarts} restarts, and nobody killed anything"] if run.restarts else []),
        ]

    def _against_spark(self, run: Run) -> list[str]:
        found: list[str] = []
        for number, (expected, actual) in enumerate(zip(self.spark.moments, run.moments, strict=True)):
            when = f"after burst {number + 1} of {len(run.moments)}"
            found += _unless_empty(f"missing {when}", expected - actual)
            if not self.dropped_by_spark and self.scenario.trigger != "drained":
                found += _unless_empty(f"ahead of Spark {when}", actual - expected)
        return found

    def _late(self, run: Run) -> list[str]:
        missing = (self.due - run.moments[-1]).total()
        if self.scenario.query.counts_rows:
            wrong = run.late != missing
        else:
            wrong = (run.late == 0) != (missing == 0)
        return [f"{run.late} rows reported as late, {missing} missing"] if wrong else []


def oracle(spark: SparkSession, scenario: Scenario, folder: Path) -> Oracle:
    """Fails when the scenario does not say what it means to."""
    batch, closed = run_as_batch(spark, scenario, folder / "batch")
    asked = Oracle(scenario, run_on_spark(spark, scenario, folder / "spark"), batch, closed)
    assert asked.spark.moments[-1], "Spark has no result: it would prove nothing"
    assert not asked.spark.moments[-1] - batch, "Spark gives what batch lacks"
    assert (asked.dropped_by_spark > 0) == scenario.drops, f"Spark drops {asked.dropped_by_spark} rows"
    return asked


def _unless_empty(what: str, rows: Multiset) -> list[str]:
    shown = ", ".join(sorted(rows)[:SHOWN_MAX])
    return [f"{rows.total()} rows {what}, such as {shown}"] if rows else []
