"""A topic and a sink into it, driven by hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.connectors.kafka_sink_kit import HandSink, sink_node
from tests.servers.kafka import Broker


@pytest.fixture
def topic(kafka: Broker) -> str:
    return kafka.topic(partitions=2)


@pytest.fixture
def hand(kafka: Broker, topic: str) -> Iterator[HandSink]:
    sink = HandSink(sink_node(kafka, topic, pipeline=topic))
    yield sink
    sink.close()
