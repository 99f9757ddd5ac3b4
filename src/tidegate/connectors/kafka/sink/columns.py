"""Rows of a result as messages: which columns a Kafka sink reads."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tidegate.model.errors import DataError, InvalidQuery
from tidegate.model.types import BINARY, INTEGER, STRING, Array, DataType, Field, Schema, Struct, simple_string

HEADERS = Array(Struct((Field("key", STRING), Field("value", BINARY))))


@dataclass(frozen=True, slots=True)
class MessageColumns:
    """Which of Spark's columns the result has. Others are not written, as in Spark."""

    topic: str | None
    """One topic for all rows (option ``topic``); None: column ``topic`` says it row by row."""
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


def _are_headers(of: DataType) -> bool:
    match of:
        case Array(Struct((Field("key", key), Field("value", value)))):
            return key == STRING and value == BINARY
        case _:
            return False
