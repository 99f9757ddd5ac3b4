"""Small files of one checkpoint, made into larger ones when they are published.

Every subtask ends its files at every checkpoint, so P subtasks that write little leave P small files per directory and checkpoint.
Only the driver sees all of them. What goes together follows from the committables alone, never from options or the clock:
whoever commits them again comes to the same files.
"""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.connectors.files.encoders import ROW_GROUP_ROWS
from tidegate.connectors.files.staging import StagedFile
from tidegate.connectors.files.text_encoders import compressing
from tidegate.connectors.files.text_options import TEXT_CODECS

MERGED_BYTES_MAX = 256 * 1024 * 1024
"""Merged per checkpoint, in the driver; what is beyond is published as it is. It bounds how long a commit takes."""
_COPY_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Group:
    """Files that become visible as one. A group of one is the file itself."""

    parts: tuple[StagedFile, ...]


def groups(files: Sequence[StagedFile]) -> list[Group]:
    """``files`` are all files of one epoch. Order among the parts is order of subtasks and of writing."""
    ordered = sorted(files, key=lambda file: (_directory(file), file.staged))
    result: list[Group] = []
    budget = MERGED_BYTES_MAX
    for _, several in itertools.groupby(ordered, key=_directory):
        joined: list[StagedFile] = []
        for file in several:
            if not file.join_bytes or file.size_bytes > budget:
                result.append(Group((file,)))
                continue
            if joined and sum(one.size_bytes for one in joined) + file.size_bytes > file.join_bytes:
                result.append(Group(tuple(joined)))
                joined = []
            joined.append(file)
            budget -= file.size_bytes
        if joined:
            result.append(Group(tuple(joined)))
    return result


def merge_parquet(parts: Sequence[bytes], target: IO[bytes]) -> None:
    """Row groups are as large as in a file that one subtask writes; types, names and compression are those of the parts."""
    with pq.ParquetFile(pa.BufferReader(parts[0])) as first:
        schema, codec = first.schema_arrow, first.metadata.row_group(0).column(0).compression
    with pq.ParquetWriter(target, schema, compression="none" if codec == "UNCOMPRESSED" else codec) as writer:
        for table in _row_groups(parts):
            writer.write_table(table)


def merge_lines(parts: Sequence[bytes], target: IO[bytes], name: str, head: bytes) -> None:
    """``name``: of any of the parts, which tells their compression. ``head`` begins every part and is wanted once."""
    compression = next((codec for codec, ending in TEXT_CODECS.items() if ending and name.endswith(ending)), "none")
    to = compressing(target, compression)
    for number, part in enumerate(parts):
        with _decompressing(part, compression) as source:
            if number and head:
                source.read(len(head))
            shutil.copyfileobj(source, to, _COPY_BYTES)
    if to is not target:
        to.close()


def _decompressing(part: bytes, compression: str) -> IO[bytes]:
    match compression:
        case "gzip":
            return cast(IO[bytes], gzip.open(io.BytesIO(part), "rb"))
        case "bzip2":
            return cast(IO[bytes], bz2.open(io.BytesIO(part), "rb"))
        case _:
            return io.BytesIO(part)


def _row_groups(parts: Sequence[bytes]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    for part in parts:
        # One thread: the driver has other things to do, and the files are small.
        waiting.append(pq.ParquetFile(pa.BufferReader(part)).read(use_threads=False))
        if sum(table.num_rows for table in waiting) >= ROW_GROUP_ROWS:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _directory(file: StagedFile) -> str:
    return file.final.rpartition("/")[0]
