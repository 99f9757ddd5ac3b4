"""Whether a cluster allows what a sink will need: asked once, at start, so that nothing fails later that could fail now."""

from __future__ import annotations

import time

from tidegate.connectors.kafka.client.refusals import explained
from tidegate.connectors.kafka.client.transactions import Transactions
from tidegate.connectors.kafka.protocol.errors import Code, Refused
from tidegate.connectors.kafka.sink.names import TransactionNames
from tidegate.connectors.kafka.sink_config import KafkaSinkConfig
from tidegate.model.errors import InvalidQuery, TidegateError, Unavailable

START_SECONDS = 15.0
APPEAR_SECONDS = 3.0
"""For a topic that the brokers create when it is first asked for."""
CONNECT_SECONDS = 3.0
"""A connection that was refused or broke off may be one of many."""
LOOK_SECONDS = 0.1


def check_cluster(config: KafkaSinkConfig, names: TransactionNames) -> None:
    """Raises InvalidQuery for what has to be changed, Unavailable for a cluster that does not answer."""
    wire = Transactions(config.client, START_SECONDS, connect_patience_s=CONNECT_SECONDS)
    try:
        if config.exactly_once:
            wire.check_versions()
        else:
            wire.check_versions_without()
        _check_topic(config, wire)
        if config.exactly_once:
            _check_transactions(config, names, wire)
    finally:
        wire.close()


def _check_topic(config: KafkaSinkConfig, wire: Transactions) -> None:
    topic, where = config.columns.topic, config.client["bootstrap.servers"]
    if topic is None:
        return
    until = time.monotonic() + APPEAR_SECONDS
    while True:
        found = wire.topics((topic,), create=True)[topic]
        if found.error in (Code.NONE, Code.LEADER_NOT_AVAILABLE):
            return
        if found.error != Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise explained(found.error, where, topic)
        if time.monotonic() > until:
            raise InvalidQuery(f"there is no topic {topic!r} at {where}", hint="create it, or see the option 'topic'")
        time.sleep(LOOK_SECONDS)


def _check_transactions(config: KafkaSinkConfig, names: TransactionNames, wire: Transactions) -> None:
    try:
        wire.initialise(names.probe, config.transaction_timeout_ms)
    except Refused as error:
        if error.code != Code.INVALID_TRANSACTION_TIMEOUT:
            raise Unavailable(f"the Kafka cluster gives no transactions: {error}") from error
        most = _allowed_timeout_ms(wire)
        raise InvalidQuery(
            f"the brokers do not let a transaction stay open for {config.transaction_timeout_ms} ms"
            + (f": their transaction.max.timeout.ms is {most}" if most else ""),
            hint="lower the option kafka.transaction.timeout.ms, or raise transaction.max.timeout.ms of the brokers",
        ) from error


def _allowed_timeout_ms(wire: Transactions) -> str | None:
    """For the message only: a user who may write need not be allowed to read the brokers' configuration."""
    try:
        return wire.setting("transaction.max.timeout.ms")
    except (TidegateError, Refused):
        return None
