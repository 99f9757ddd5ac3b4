"""Sinks into a PostgreSQL database, driven by hand: what a slot and the driver do, step by step."""

from __future__ import annotations

import polars as pl

from tidegate.connectors.legacy import Sink
from tidegate.connectors.postgres.committer import PostgresCommitter
from tidegate.connectors.postgres.writer import PostgresSink, PostgresWriter
from tidegate.model import types as t
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Committable
from tidegate.model.types import Field, Schema

SCHEMA: Schema = (Field("k", t.STRING), Field("n", t.LONG))


def sink_to(
    url: str,
    schema: Schema = SCHEMA,
    mode: OutputMode = OutputMode.APPEND,
    *,
    pipeline: str = "p1",
    sink: str = "sink-0",
    **options: object,
) -> Sink:
    given = {"url": url, "dbtable": "out", "tidegate.pipeline": pipeline} | {k: str(v) for k, v in options.items()}
    return Sink(
        id=OperatorId(sink),
        format="postgres",
        options=given,
        columns=tuple((field.name, field.name) for field in schema),
        schema=schema,
        mode=mode,
    )


def upsert_to(url: str, **options: object) -> Sink:
    return sink_to(url, SCHEMA, OutputMode.UPDATE, **({"keys": "k"} | options))  # type: ignore[arg-type]


def writer(sink: Sink, attempt: int = 1, subtask: int = 0) -> PostgresWriter:
    return PostgresSink().writer(sink, Attempt(attempt), SlotIndex(subtask))


def committer(sink: Sink) -> PostgresCommitter:
    return PostgresCommitter(sink)


def rows(*pairs: tuple[str | None, int | None]) -> pl.DataFrame:
    return pl.DataFrame(pairs, schema={"k": pl.String, "n": pl.Int64}, orient="row")


def numbers(*numbers: int) -> pl.DataFrame:
    return rows(*((f"k{n}", n) for n in numbers))


def prepared(to: PostgresWriter, checkpoint: int, subtask: int = 0) -> tuple[Committable, ...]:
    return tuple(
        Committable(checkpoint=CheckpointId(checkpoint), subtask=SlotIndex(subtask), number=n, payload=payload)
        for n, payload in enumerate(to.prepare(CheckpointId(checkpoint)))
    )


def wrote(
    sink: Sink, frame: pl.DataFrame, checkpoint: int, attempt: int = 1, subtask: int = 0
) -> tuple[Committable, ...]:
    """A subtask that writes ``frame``, prepares it and dies."""
    to = writer(sink, attempt, subtask)
    to.write(frame)
    ready = prepared(to, checkpoint, subtask)
    to.close()
    return ready
