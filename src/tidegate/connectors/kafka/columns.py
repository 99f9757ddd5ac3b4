"""Rows of a result as messages: which columns a Kafka sink reads, and where their bytes lie, as librdkafka takes them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from tidegate.connectors.kafka.librdkafka import ANY_PARTITION, MESSAGES
from tidegate.model.errors import DataError, InvalidQuery
from tidegate.model.types import BINARY, INTEGER, STRING, Array, DataType, Field, Schema, Struct, simple_string

HEADERS = Array(Struct((Field("key", STRING), Field("value", BINARY))))

_NOTHING = ctypes.create_string_buffer(1)
"""Where empty bytes lie: an address of zero would mean null."""


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Which of Spark's columns the result has. Others are not written, as in Spark."""

    topic: str | None
    """The same for all rows (option ``topic``); None: column ``topic`` says it row by row."""
    has_key: bool
    has_partition: bool
    has_headers: bool

    @classmethod
    def of(cls, schema: Schema, topic: str | None) -> MessageColumns:
        types = {field.name: field.type for field in schema}
        if "value" not in types:
            raise InvalidQuery(
                "the Kafka sink needs a column 'value'",
                hint="select one, a string or binary: to_json(struct('*')).alias('value') writes whole rows; "
                f"the columns are {', '.join(types)}",
            )
        if not topic and "topic" not in types:
            raise InvalidQuery(
                "the Kafka sink does not know which topic to write to",
                hint="set .option('topic', …), or select a column 'topic'",
            )
        for name, allowed in (
            ("value", (STRING, BINARY)),
            ("key", (STRING, BINARY)),
            ("topic", (STRING,)),
            ("partition", (INTEGER,)),
        ):
            if name in types and types[name] not in allowed and not (name == "topic" and topic):
                raise InvalidQuery(
                    f"column {name!r} of the Kafka sink is {simple_string(types[name])}",
                    hint=f"it must be {' or '.join(map(simple_string, allowed))}: cast it",
                )
        if "headers" in types and not _are_headers(types["headers"]):
            raise InvalidQuery(
                f"column 'headers' of the Kafka sink is {simple_string(types['headers'])}",
                hint=f"it must be {simple_string(HEADERS)}",
            )
        return cls(topic or None, "key" in types, "partition" in types, "headers" in types)

    def by_topic(self, rows: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
        """Rows of one topic keep their order."""
        if self.topic is not None:
            return [(self.topic, rows)]
        if rows["topic"].null_count():
            raise DataError(
                "a row for Kafka has no topic: column 'topic' is null", hint="filter such rows, or fill it in"
            )
        parts = rows.partition_by("topic", maintain_order=True)
        return [(part.item(0, "topic"), part) for part in parts]


class MessageBlock:
    """Messages of one topic, without headers, laid out for ``rd_kafka_produce_batch``. Points into ``rows``: keep it as long."""

    def __init__(self, rows: pl.DataFrame, columns: MessageColumns) -> None:
        self.messages = np.zeros(rows.height, MESSAGES)
        self._kept = [self._point(rows["value"], "payload", "length")]
        if columns.has_key:
            self._kept.append(self._point(rows["key"], "key", "key_length"))
        self.messages["partition"] = ANY_PARTITION
        if columns.has_partition:
            self.messages["partition"] = rows["partition"].fill_null(ANY_PARTITION).to_numpy()

    def _point(self, column: pl.Series, address: str, length: str) -> object:
        """Returns what owns the bytes."""
        array, offsets, data = contiguous(column)
        base = data.address if data is not None and data.size else ctypes.addressof(_NOTHING)
        starts = offsets[:-1] + base
        if array.null_count:
            starts = np.where(column.is_not_null().to_numpy(), starts, 0)
        self.messages[address] = starts
        self.messages[length] = np.diff(offsets)
        return array


def contiguous(column: pl.Series) -> tuple[pa.Array, np.ndarray, pa.Buffer | None]:
    """Its bytes one value behind the other: who owns them, where in them each value begins and the last one ends, and the bytes."""
    array = column.cast(pl.Binary).to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets_buffer, data = array.buffers()
    return array, np.frombuffer(offsets_buffer, np.int64)[array.offset : array.offset + len(array) + 1], data


def _are_headers(of: DataType) -> bool:
    match of:
        case Array(Struct((Field("key", key), Field("value", value)))):
            return key == STRING and value == BINARY
        case _:
            return False
