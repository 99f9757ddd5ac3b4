"""Every ``kafka.*`` option works, has no effect, or is refused with a reason; a name that nobody knows is a mistake."""

from __future__ import annotations

import ctypes
import logging
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import cimpl  # pyright: ignore[reportAttributeAccessIssue]

from tidegate.connectors.kafka.option_table import DECIDED, TABLE, TRANSLATED, Refuses, Role, WithoutEffect, Works
from tidegate.connectors.kafka.options import client_config
from tidegate.connectors.kafka.protocol.compression import Compression
from tidegate.connectors.kafka.protocol.partitioner import Partitioner
from tidegate.connectors.kafka.sink.producer_settings import ProducerSettings
from tidegate.connectors.kafka.sink_config import parse_sink
from tidegate.connectors.legacy import Sink
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import OperatorId
from tidegate.model.types import STRING, Field

SERVERS = {"kafka.bootstrap.servers": "a:9092"}


def client(role: Role = Role.SINK, *, warn: bool = False, **options: str) -> dict[str, str]:
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    return client_config(SERVERS | given, "Kafka sink" if role is Role.SINK else "kafka source", role, warn=warn)


def sink(**options: str) -> ProducerSettings:
    given = {f"kafka.{name.replace('_', '.')}": value for name, value in options.items()}
    schema = (Field("value", STRING),)
    node = Sink(
        id=OperatorId("sink"),
        format="kafka",
        options=SERVERS | {"topic": "t"} | given,
        columns=(("value", "value"),),
        schema=schema,
    )
    return parse_sink(node).producer


def test_no_name_has_two_meanings() -> None:
    names = [*TABLE, *TRANSLATED, *DECIDED[Role.SOURCE], *DECIDED[Role.SINK]]
    assert len(names) == len(set(names))
    assert all(name == name.lower() for name in names)


def names_of_librdkafka() -> set[str]:
    library = ctypes.CDLL(cimpl.__file__)
    found: set[str] = set()
    for kind in ("rd_kafka_conf", "rd_kafka_topic_conf"):
        made, dump = getattr(library, f"{kind}_new"), getattr(library, f"{kind}_dump")
        made.restype = ctypes.c_void_p
        dump.restype, dump.argtypes = ctypes.POINTER(ctypes.c_char_p), (ctypes.c_void_p, ctypes.c_void_p)
        count = ctypes.c_size_t()
        pairs = dump(made(), ctypes.byref(count))
        found |= {pairs[n].decode() for n in range(0, count.value, 2)}
    return found


def test_every_name_of_librdkafka_is_known() -> None:
    names = names_of_librdkafka()
    assert len(names) > 100
    assert names - {*TABLE, *TRANSLATED, *DECIDED[Role.SOURCE], *DECIDED[Role.SINK]} == set()


@pytest.mark.parametrize("name", ["linger.ms", "queue.buffering.max.ms", "client.rack", "retries", "check.crcs"])
def test_an_option_without_effect_is_said_once_with_the_reason(name: str, caplog: pytest.LogCaptureFixture) -> None:
    meaning = TABLE[name]
    assert isinstance(meaning, WithoutEffect)
    with caplog.at_level(logging.WARNING, "tidegate"):
        found = client_config(SERVERS | {f"kafka.{name}": "5"}, "Kafka sink", Role.SINK)
        assert not caplog.records, "slots say nothing"
        client_config(SERVERS | {f"kafka.{name}": "5"}, "Kafka sink", Role.SINK, warn=True)
    assert found == {"bootstrap.servers": "a:9092"}
    (said,) = caplog.records
    assert f"kafka.{name}: {meaning.why}" in said.getMessage()


def test_an_option_of_the_other_side_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tidegate"):
        assert "fetch.min.bytes" not in client(Role.SINK, warn=True, fetch_min_bytes="1", auto_offset_reset="latest")
        assert "batch.size" not in client(Role.SOURCE, warn=True, batch_size="1", acks="1")
    assert "kafka.fetch.min.bytes, kafka.auto.offset.reset: only a source knows it" in caplog.text
    assert "kafka.batch.size, kafka.acks: only a sink knows it" in caplog.text


@pytest.mark.parametrize("name", [name for name, meaning in TABLE.items() if isinstance(meaning, Refuses)])
def test_what_cannot_work_is_refused_by_name_and_with_the_reason(name: str) -> None:
    meaning = TABLE[name]
    assert isinstance(meaning, Refuses)
    for role in (Role.SOURCE, Role.SINK):
        with pytest.raises(InvalidQuery) as raised:
            client_config(SERVERS | {f"kafka.{name}": "x"}, "Kafka sink", role)
        assert f"kafka.{name}" in raised.value.message and meaning.why in raised.value.message


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("batch_sise", "batch.size"), ("compresion_type", "compression.type"), ("sasl_mechanisn", "sasl.mechanism")],
)
def test_a_name_that_nobody_knows_is_a_mistake(wrong: str, right: str) -> None:
    with pytest.raises(InvalidQuery, match=f"does not know the option 'kafka.{wrong.replace('_', '.')}'") as raised:
        client(**{wrong: "1"})
    assert raised.value.hint == f"did you mean kafka.{right}?"
    with pytest.raises(InvalidQuery) as raised:
        client(qqqqqqqqqqqq="1")
    assert "prefixed with kafka." in raised.value.hint


def test_the_page_of_the_connector_names_everything_that_works() -> None:
    page = (Path(__file__).parents[3] / "docs" / "connectors" / "kafka.md").read_text()
    known_as: dict[str, list[str]] = {}
    for name, meaning in TABLE.items():
        if isinstance(meaning, Works):
            known_as.setdefault(meaning.name, []).append(name)
    families = ("sasl.oauthbearer.",)
    missing = [
        name
        for name, names in known_as.items()
        if not any(f"{one}`" in page for one in names) and not name.startswith(families)
    ]
    assert missing == []


def test_names_of_both_clients_mean_the_same() -> None:
    assert client(sasl_mechanisms="PLAIN")["sasl.mechanism"] == "PLAIN"
    assert client(max_request_size="7")["message.max.bytes"] == "7"
    assert client(compression_codec="lz4")["compression.type"] == "lz4"
    assert client(Role.SOURCE, fetch_message_max_bytes="7")["max.partition.fetch.bytes"] == "7"
    assert "metadata.broker.list" in TABLE
    assert client_config({"kafka.metadata.broker.list": "b:1"}, "x", Role.SINK) == {"bootstrap.servers": "b:1"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", "big"),
        ("batch_size", "-1"),
        ("compression_type", "brotli"),
        ("partitioner", "fnv1a"),
        ("enable_ssl_certificate_verification", "maybe"),
        ("buffer_memory", "much"),
    ],
)
def test_a_value_that_it_does_not_take_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidQuery, match=f"option 'kafka.{name.replace('_', '.')}' of the Kafka sink is '{value}'"):
        client(**{name: value})


@pytest.mark.parametrize(
    ("options", "field", "expected"),
    [
        ({}, "compression", Compression(0)),
        ({"compression_type": "LZ4"}, "compression", Compression(3)),
        ({"compression_type": "zstd", "compression_level": "5"}, "compression", Compression(4, 5)),
        ({"compression_type": "gzip", "compression_gzip_level": "9"}, "compression", Compression(1, 9)),
        ({"compression_type": "snappy", "compression_level": "9"}, "compression", Compression(2)),
        ({"compression_type": "zstd", "compression_level": "-1"}, "compression", Compression(4)),
        ({"buffer_memory": "2048000"}, "unsent_bytes_max", 2_048_000),
        ({"batch_size": "77"}, "batch_bytes_max", 77),
        ({"partitioner": "random"}, "partitioner", Partitioner.RANDOM),
        ({"partitioner_ignore_keys": "true"}, "partitioner", Partitioner.RANDOM),
    ],
)
def test_a_producer_is_set_by_options(options: dict[str, str], field: str, expected: Any) -> None:
    assert getattr(sink(**options), field) == expected


def test_a_level_that_the_codec_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidQuery, match="level of compression") as raised:
        sink(compression_type="gzip", compression_level="77")
    assert "gzip takes 1 to 9" in raised.value.hint
