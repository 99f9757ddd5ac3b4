"""Options of the Kafka source: Spark's names and defaults, the Java client's names, and what is refused with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidegate.connectors.kafka.config import KafkaSourceConfig, parse_kafka, source_schema
from tidegate.connectors.kafka.option_table import Role
from tidegate.connectors.kafka.options import client_config
from tidegate.connectors.kafka.source.cluster import Cluster
from tidegate.connectors.kafka.source.edges import Earliest, Latest, Offsets, Times
from tidegate.connectors.kafka.source.enumerator import KafkaEnumerator
from tidegate.connectors.kafka.source.selection import Partitions, Pattern, Topics
from tidegate.model.errors import InvalidQuery

SERVERS = {"kafka.bootstrap.servers": "a:9092,b:9092"}


def parsed(**options: str) -> KafkaSourceConfig:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return parse_kafka(
        "kafka", SERVERS | ({} if {"assign", "subscribePattern"} & named.keys() else {"subscribe": "t"}) | named
    )


def test_defaults_are_sparks_but_only_committed_rows_are_read() -> None:
    config = parsed()
    assert config.selection == Topics(("t",))
    assert (config.starting, config.ending, config.fail_on_data_loss, config.group) == (Latest(), None, True, None)
    assert config.committed_only and config.client["isolation.level"] == "read_committed"
    assert not parsed(kafka_isolation_level="read_uncommitted").committed_only


@pytest.mark.parametrize(
    ("options", "selection"),
    [
        ({"subscribe": "a, b,a"}, Topics(("a", "b"))),
        ({"subscribePattern": "a.*"}, Pattern("a.*")),
        ({"assign": '{"a":[0,2]}'}, Partitions(frozenset({("a", 0), ("a", 2)}))),
    ],
)
def test_a_selection_is_one_of_three(options: dict[str, str], selection: Any) -> None:
    assert parsed(**options).selection == selection


def test_a_pattern_matches_whole_names() -> None:
    assert Pattern("a.*").matches("abc")
    assert not Pattern("a").matches("abc")


@pytest.mark.parametrize(
    ("options", "edge"),
    [
        ({"startingOffsets": "EARLIEST"}, Earliest()),
        ({"startingOffsets": '{"t":{"0":5,"1":-2}}'}, Offsets({("t", 0): 5, ("t", 1): -2})),
        ({"startingTimestamp": "1000", "startingOffsets": "earliest"}, Times(1000, False)),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":7}}', "startingOffsetsByTimestampStrategy": "latest"},
            Times({("t", 0): 7}, True),
        ),
    ],
)
def test_where_to_start_has_sparks_precedence(options: dict[str, str], edge: Any) -> None:
    assert parsed(**options).starting == edge


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"subscribe": "a", "subscribePattern": "b"}, "needs one of"),
        ({"subscribe": " "}, "subscribe"),
        ({"subscribePattern": "("}, "regular expression"),
        ({"assign": "[1]"}, "topicA"),
        ({"assign": '{"a":[-1]}'}, "topicA"),
        ({"startingOffsets": "soon"}, "earliest, latest"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "earliest, latest"),
        ({"startingOffsets": '{"t":{"0":true}}'}, "earliest, latest"),
        ({"startingTimestamp": "yesterday"}, "whole number"),
        ({"endingOffsets": "earliest"}, "latest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "latest"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"partitionOrder": "true"}, "on or off"),
        ({"minPartitions": "10"}, "repartition"),
        ({"kafka.isolation.level": "chaos"}, "read_committed"),
        ({"kafka.auto.offset.reset": "earliest"}, "startingOffsets"),
        ({"kafka.key.deserializer": "x"}, "bytes"),
        ({"kafka.interceptor.classes": "x"}, "JVM"),
        ({"kafka.ssl.truststore.location": "/trust.jks"}, "PEM"),
        ({"kafka.ssl.keystore.location": "/keys.jks"}, "PEM"),
        (
            {"kafka.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;"},
            "PlainLogin",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_way_out(options: dict[str, str], says: str) -> None:
    subscription = {} if {"assign", "subscribePattern", "subscribe"} & options.keys() else {"subscribe": "t"}
    with pytest.raises(InvalidQuery) as raised:
        parse_kafka("kafka", SERVERS | subscription | options)
    assert says in str(raised.value)
    assert raised.value.hint


def test_brokers_must_be_named() -> None:
    with pytest.raises(InvalidQuery, match=r"kafka\.bootstrap\.servers"):
        parse_kafka("kafka", {"subscribe": "t"})


def test_names_of_the_java_client_are_translated() -> None:
    jaas = r'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="p\"w=;";'
    config = client_config(
        SERVERS
        | {
            "kafka.sasl.jaas.config": jaas,
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.fetch.max.wait.ms": "100",
            "kafka.ssl.truststore.location": "/ca.pem",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.keystore.location": "/k.p12",
            "kafka.ssl.keystore.type": "PKCS12",
            "kafka.ssl.keystore.password": "kp",
            "kafka.ssl.endpoint.identification.algorithm": "",
            "kafka.max.poll.records": "10",
            "kafka.queued.min.messages": "7",
        },
        "kafka source",
        Role.SOURCE,
    )
    assert config == {
        "bootstrap.servers": "a:9092,b:9092",
        "sasl.username": "u",
        "sasl.password": 'p"w=;',
        "sasl.mechanism": "SCRAM-SHA-512",
        "fetch.wait.max.ms": "100",
        "ssl.ca.location": "/ca.pem",
        "ssl.keystore.location": "/k.p12",
        "ssl.keystore.password": "kp",
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_secrets_are_not_in_the_text_of_a_configuration() -> None:
    assert "hidden" not in repr(parsed(kafka_sasl_password="hidden"))


def test_headers_are_a_column_only_when_asked_for() -> None:
    plain = [one.name for one in source_schema({})]
    assert plain == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert [one.name for one in source_schema({"includeheaders": "true"})] == [*plain, "headers"]


def test_offsets_of_every_partition_are_kept() -> None:
    given = {"a": {"0": 1, "3": -1}, "b": {"1": -2}}
    edge = parsed(startingOffsets=json.dumps(given)).starting
    assert edge == Offsets({("a", 0): 1, ("a", 3): -1, ("b", 1): -2})


@pytest.mark.parametrize(
    ("options", "bounded", "ordered"),
    [
        ({}, False, True),
        ({}, True, False),
        ({"endingOffsets": "latest"}, False, False),
        ({"partitionOrder": "on"}, False, True),
        ({"partitionOrder": "ON"}, True, True),
        ({"partitionOrder": "off"}, True, False),
        ({"partitionOrder": "off", "endingOffsets": "latest"}, False, False),
    ],
)
def test_order_inside_a_partition_counts_in_a_run_without_end_or_when_asked_for(
    options: dict[str, str], bounded: bool, ordered: bool
) -> None:
    """The enumerator says so, and nobody else."""
    config = parse_kafka("kafka", SERVERS | {"subscribe": "t"} | options)
    assert KafkaEnumerator(config, Cluster(config), bounded=bounded).ordered is ordered


def test_partitions_without_end_must_have_an_order() -> None:
    config = parsed(partitionOrder="off")
    with pytest.raises(InvalidQuery, match="no window would ever close") as raised:
        KafkaEnumerator(config, Cluster(config), bounded=False)
    assert "availableNow" in raised.value.hint
