"""Reads one Parquet file, row group by row group, only the columns of the query."""

from __future__ import annotations

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.connectors.files.metadata import with_row_index
from tidegate.connectors.files.promises import TimePromise
from tidegate.connectors.files.splits import ParquetPosition, SourceFile, decode_position
from tidegate.connectors.rows import RowShape
from tidegate.model.errors import CorruptSnapshot, DataError
from tidegate.ports.source import SplitReader

PIECE_BYTES = 8 * 1024 * 1024
"""Decoded at once, about: larger is faster per row, but a turn of the loop must stay short."""
PIECE_ROWS_MIN = 16_384
PIECE_ROWS_MAX = 262_144


class ParquetReader(SplitReader):
    """Position: row group and row in it. Pieces never cross a row group, so seeking decodes at most one piece twice.

    Polars decodes about twice as fast as Arrow into Polars columns, but every call starts anew: hence large pieces that
    are handed out in slices.
    """

    def __init__(
        self,
        file: SourceFile,
        shape: RowShape,
        constants: dict[str, pl.Series],
        position: bytes | None,
        promise: TimePromise | None = None,
    ) -> None:
        self._name = file.name
        self._promise = promise
        self._shape = shape
        try:
            metadata = pq.read_metadata(file.path)
            names = pq.read_schema(file.path).names
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise corrupt(file.name, error) from error
        self._group_rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._stored = _stored_names(names, shape.columns, file.name)
        self._piece_rows = _piece_rows(metadata, set(self._stored.values()))
        self._constants = constants
        self._lazy = pl.scan_parquet(file.path, parallel="none", glob=False, missing_columns="insert")
        at = ParquetPosition() if position is None else decode_position(position, ParquetPosition)
        groups = len(self._group_rows)
        if at.group > groups or at.row > (self._group_rows[at.group] if at.group < groups else 0):
            raise behind_the_end(file.name, f"row {at.row} of row group {at.group}")
        self._group, self._row = at.group, at.row
        self._piece: pl.DataFrame | None = None
        self._piece_start = 0
        self._skip_finished_groups()

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        if self.finished:
            return None
        if self._piece is None:
            self._piece, self._piece_start = self._decode(), self._row
        start = self._row - self._piece_start
        rows = self._piece.slice(start, rows_max)
        self._row += rows.height
        if start + rows.height == self._piece.height:
            self._piece = None
        self._skip_finished_groups()
        return rows

    @property
    def position(self) -> bytes:
        return msgspec.msgpack.encode(ParquetPosition(group=self._group, row=self._row))

    @property
    def finished(self) -> bool:
        return self._group >= len(self._group_rows)

    def describe(self) -> str:
        return f"{self._name} row group {self._group} row {self._row}"

    def close(self) -> None:
        self._piece = None

    def _decode(self) -> pl.DataFrame:
        count = min(self._piece_rows, self._group_rows[self._group] - self._row)
        offset = sum(self._group_rows[: self._group]) + self._row
        try:
            if self._stored:
                wanted = [pl.col(stored).alias(name) for name, stored in self._stored.items()]
                frame = self._lazy.select(wanted).slice(offset, count).collect()
            else:
                frame = pl.DataFrame(height=count)
        except (pl.exceptions.PolarsError, OSError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise corrupt(self._name, error) from error
        if frame.height != count:
            raise corrupt(self._name, f"{frame.height} rows where its footer promises {count}")
        whole = with_row_index(with_constants(frame, self._constants), offset)
        rows = self._shape.rows(whole, self._name)
        if self._promise is not None:
            self._promise.check(rows, self._name)
        return rows

    def _skip_finished_groups(self) -> None:
        while not self.finished and self._row >= self._group_rows[self._group]:
            self._group, self._row = self._group + 1, 0


def with_constants(frame: pl.DataFrame, constants: dict[str, pl.Series]) -> pl.DataFrame:
    """Adds the columns whose values stand in the path; each series holds one value."""
    if not constants:
        return frame
    return frame.with_columns(value.new_from_index(0, frame.height).alias(name) for name, value in constants.items())


def corrupt(path: str, error: object) -> DataError:
    return DataError(
        f"cannot read {path}: {error}",
        hint="the file is damaged or not of this format: repair or replace it, then start again",
    )


def behind_the_end(path: str, position: str) -> CorruptSnapshot:
    return CorruptSnapshot(
        f"the checkpoint stands at {position} in {path}, behind its end",
        hint="the checkpoint is not of this file: restore the file, or start from another checkpoint",
    )


def _stored_names(stored: list[str], wanted: tuple[str, ...], path: str) -> dict[str, str]:
    """Wanted column → its name in the file. Exact names first, then ignoring case, as Spark does."""
    found: dict[str, str] = {}
    for name in wanted:
        same = [name] if name in stored else [other for other in stored if other.lower() == name.lower()]
        if len(same) > 1:
            raise DataError(f"{path} holds several columns called {name}: {', '.join(same)}", hint="rename all but one")
        if same:
            found[name] = same[0]
    return found


def _piece_rows(metadata: pq.FileMetaData, columns: set[str]) -> int:
    sizes = 0
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            if column.path_in_schema.partition(".")[0] in columns:
                sizes += column.total_uncompressed_size
    row_bytes = max(1, sizes // max(1, metadata.num_rows))
    return max(PIECE_ROWS_MIN, min(PIECE_ROWS_MAX, PIECE_BYTES // row_bytes))
