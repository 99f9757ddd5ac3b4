"""Whether brokers that take no messages lack the topic: librdkafka waits for one that is deleted under a transaction, for ever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient  # pyright: ignore[reportPrivateImportUsage]

ANSWER_SECONDS = 2.0
_OF_PRODUCERS = ("transactional.id", "transaction.timeout.ms", "enable.idempotence", "delivery.report.only.error")


def missing_topics(options: Mapping[str, str], topics: Iterable[str]) -> tuple[str, ...]:
    """Those that the cluster says it does not have. None of them when it does not answer."""
    plain = {name: value for name, value in options.items() if name not in _OF_PRODUCERS}
    found: list[str] = []
    with suppress(KafkaException):
        client = AdminClient({**plain, "log_level": 0})
        for topic in topics:
            error = client.list_topics(topic, ANSWER_SECONDS).topics[topic].error
            if error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                found.append(topic)
    return tuple(found)
