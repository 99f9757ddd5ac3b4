"""Committed rows printed on the driver, one table per checkpoint, as Spark's console sink prints its batches."""

from __future__ import annotations

import datetime
import sys
from typing import TextIO

import polars as pl

from tidegate.connectors.collected import decode_rows
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import Committable
from tidegate.ports.sink import SinkCommitter

_WIDTH_MIN = 3
_RULE = "-" * 43


class ConsoleCommitter(SinkCommitter):
    """Driver side. After a restart the rows of the last checkpoint may be printed again."""

    def __init__(self, rows_max: int, truncate: int, out: TextIO | None = None) -> None:
        """``truncate``: characters per cell; 0: all."""
        self._rows_max = rows_max
        self._truncate = truncate
        self._out = out
        self._last = CheckpointId(-1)

    def commit(self, committables: tuple[Committable, ...]) -> None:
        by_checkpoint: dict[CheckpointId, list[Committable]] = {}
        for one in sorted(committables, key=lambda one: one.place):
            if one.checkpoint > self._last:
                by_checkpoint.setdefault(one.checkpoint, []).append(one)
        for checkpoint, group in by_checkpoint.items():
            decoded = [decode_rows(one) for one in group]
            self._print(checkpoint, pl.concat([rows for rows, _ in decoded]), sum(total for _, total in decoded))
            self._last = checkpoint

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        return None

    def _print(self, checkpoint: CheckpointId, rows: pl.DataFrame, total: int) -> None:
        out = self._out or sys.stdout
        out.write(f"{_RULE}\nCheckpoint: {checkpoint}\n{_RULE}\n")
        out.write(show(rows.head(self._rows_max), self._truncate))
        if total > self._rows_max:
            out.write(f"only showing top {self._rows_max} of {total} rows\n")
        out.write("\n")
        out.flush()


def show(rows: pl.DataFrame, truncate: int) -> str:
    """A table as ``DataFrame.show`` draws it: right-aligned when cells are cut, left-aligned otherwise."""
    cells = [[_cut(name, truncate) for name in rows.columns]]
    cells += [[_cut(_text(value), truncate) for value in row] for row in rows.iter_rows()]
    widths = [max(_WIDTH_MIN, *(len(row[i]) for row in cells)) for i in range(len(rows.columns))]
    rule = "+" + "+".join("-" * width for width in widths) + "+\n"
    lines = [
        "|"
        + "|".join(cell.rjust(w) if truncate else cell.ljust(w) for cell, w in zip(row, widths, strict=True))
        + "|\n"
        for row in cells
    ]
    return rule + lines[0] + rule + "".join(lines[1:]) + rule


def _cut(text: str, truncate: int) -> str:
    text = text.replace("\n", "\\n")
    if not truncate or len(text) <= truncate:
        return text
    return text[:truncate] if truncate < 4 else text[: truncate - 3] + "..."


def _text(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case datetime.datetime():
            return (
                value.replace(tzinfo=None).isoformat(sep=" ").rstrip("0").rstrip(".")
                if value.microsecond
                else (value.replace(tzinfo=None).isoformat(sep=" "))
            )
        case list():
            return "[" + ", ".join(_text(item) for item in value) + "]"
        case dict():
            return "{" + ", ".join(_text(item) for item in value.values()) + "}"
        case bytes():
            return "[" + " ".join(f"{byte:02X}" for byte in value) + "]"
        case _:
            return str(value)
