"""The files of a scenario, written and moved into place as its bursts say."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
from tests.integration.event_time.scenario import Burst, File, Scenario

WRITTEN_S = 1_750_000_000
"""Modification time of the first file; each later one is a second younger, whenever it is really written."""


class Directories:
    """One per stream. A burst becomes a directory in it that appears whole, or files that appear one by one."""

    def __init__(self, root: Path, scenario: Scenario) -> None:
        self._root, self._format = root, scenario.format
        self._files = self._bursts = 0
        for stream in scenario.query.streams:
            self.of(stream).mkdir(parents=True)

    def of(self, stream: str) -> Path:
        return self._root / stream

    def put(self, burst: Burst) -> None:
        self._bursts += 1
        written = [(file.stream, self._write(file)) for file in burst.files]
        if burst.one_by_one:
            for stream, path in written:
                path.rename(self.of(stream) / path.name)
        else:
            for stream in dict.fromkeys(stream for stream, _ in written):
                self._staged(stream).rename(self.of(stream) / f"burst-{self._bursts:02}")

    def _staged(self, stream: str) -> Path:
        return self._root / "staged" / f"{stream}-{self._bursts:02}"

    def _write(self, file: File) -> Path:
        self._files += 1
        staged = self._staged(file.stream)
        staged.mkdir(parents=True, exist_ok=True)
        path = staged / f"{self._files:03}.{self._format}"
        rows = _frame(file)
        match self._format:
            case "parquet":
                rows.write_parquet(path)
            case "json":
                _as_text(rows).write_ndjson(path)
            case _:
                _as_text(rows).write_csv(path, include_header=False)
        os.utime(path, (WRITTEN_S + self._files, WRITTEN_S + self._files))
        return path


def _frame(file: File) -> pl.DataFrame:
    columns = {
        "id": [row.id for row in file.rows],
        "ts": [row.time_us for row in file.rows],
        "value": [row.value for row in file.rows],
    }
    frame = pl.DataFrame(columns, schema={"id": pl.Int64, "ts": pl.Int64, "value": pl.Int64})
    return frame.with_columns(pl.col("ts").cast(pl.Datetime("us")).dt.replace_time_zone("UTC"))


def _as_text(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.col("ts").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ"))
