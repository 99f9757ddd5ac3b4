"""Kafka: options still go through as text."""

from __future__ import annotations

from typing import ClassVar

import tidegate.connectors.kafka.format as _format  # noqa: F401  What it needs is missing here, or never.
from tidegate.connectors.legacy import LegacySink, LegacySource


class KafkaSource(LegacySource):
    PACKAGE: ClassVar = "kafka"


class KafkaSink(LegacySink):
    PACKAGE: ClassVar = "kafka"


SOURCE = KafkaSource
SINK = KafkaSink
