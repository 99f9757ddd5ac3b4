"""A function for ``foreachBatch`` that notes every call, and meets with whatever is planned for a batch."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

import tidegate


class Call(NamedTuple):
    name: str
    batch: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Notes:
    """Of one sink. Notes stay when the process dies in the next line."""

    folder: Path
    sink: str

    def save(self, batch: DataFrame, batch_id: int) -> None:
        this = tidegate.batch()
        assert this.id == batch_id
        rows = sorted(row.value for row in batch.select("value").collect())
        with (self.folder / f"{self.sink}.notes").open("a") as notes:
            notes.write(json.dumps([this.name, batch_id, rows]) + "\n")
        if self._met("kill", batch_id):
            os.kill(os.getpid(), signal.SIGKILL)
        if self._met("raise", batch_id):
            raise ValueError(f"planned for batch {batch_id} of {self.sink}")

    def plan(self, what: str, batch_id: int) -> None:
        """``kill`` or ``raise``, once."""
        (self.folder / f"{what}-{self.sink}-{batch_id}").touch()

    def has_plans(self) -> bool:
        """Something is planned and has not happened yet."""
        return any(self.folder.glob(f"*-{self.sink}-*"))

    def calls(self) -> list[Call]:
        path = self.folder / f"{self.sink}.notes"
        lines = path.read_text().splitlines() if path.exists() else []
        return [Call(name, batch, tuple(rows)) for name, batch, rows in map(json.loads, lines)]

    def _met(self, what: str, batch_id: int) -> bool:
        planned = self.folder / f"{what}-{self.sink}-{batch_id}"
        met = planned.exists()
        planned.unlink(missing_ok=True)
        return met


def start_job(session: SparkSession, folder: Path, parallelism: int) -> tidegate.StreamingJob:
    """Two sinks: one with rows in every checkpoint, and one with hardly any."""
    numbers = session.readStream.format("rate").option("rowsPerSecond", 500).load()
    job = tidegate.Job("noted", checkpointLocation=str(folder / "checkpoints"))
    for sink, rows in (("often", numbers), ("seldom", numbers.where("value % 700 = 3"))):
        writer = tidegate.writeStream(rows).queryName(sink).option("parallelism", parallelism)
        job.add(writer.foreachBatch(Notes(folder, sink).save))
    return job.trigger(checkpoint="200 milliseconds").start()
