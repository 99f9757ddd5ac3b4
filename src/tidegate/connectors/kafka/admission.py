"""Whether a cluster allows what a sink will need: asked once, at start, so that nothing fails later that could fail now."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import Producer as Client
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType  # pyright: ignore[reportPrivateImportUsage]

from tidegate.connectors.kafka.client import Complaints, servers, typed, unusable
from tidegate.connectors.kafka.names import TransactionNames
from tidegate.connectors.kafka.sink_config import KafkaSinkConfig
from tidegate.connectors.kafka.wire.errors import Code, Refused
from tidegate.connectors.kafka.wire.transactions import Transactions
from tidegate.model.errors import InvalidQuery, Unavailable

START_SECONDS = 15.0
APPEAR_SECONDS = 3.0
"""For a topic that the brokers create when it is first asked for."""
CONNECT_SECONDS = 3.0
"""A connection that was refused or broke off may be one of many."""
LOOK_SECONDS = 0.1
_CONNECTING = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN})
_WHAT = "Kafka sink"


def check_cluster(config: KafkaSinkConfig, names: TransactionNames) -> None:
    """Raises InvalidQuery for what has to be changed, Unavailable for a cluster that does not answer."""
    complaints = Complaints(_WHAT)
    try:
        client = Client(config.producer(None) | {"error_cb": complaints, "log_level": 0})
    except KafkaException as error:
        raise unusable(error, _WHAT) from error
    _check_topic(config, client, complaints)
    if config.exactly_once:
        _check_transactions(config, names)


def _check_topic(config: KafkaSinkConfig, client: Client, complaints: Complaints) -> None:
    topic = config.columns.topic
    began = time.monotonic()
    appears = began + APPEAR_SECONDS
    while True:
        try:
            listed = client.list_topics(topic, 1.0) if topic else client.list_topics(timeout=1.0)
        except KafkaException as failure:
            client.poll(LOOK_SECONDS)
            error: KafkaError = failure.args[0]
            may_connect_s = CONNECT_SECONDS if error.code() in _CONNECTING else 0.0
            patience_s = START_SECONDS if error.retriable() else may_connect_s
            if complaints.refused is None and time.monotonic() < began + patience_s:
                continue
            raise typed(error, complaints, servers(config.client), _WHAT) from failure
        problem = listed.topics[topic].error if topic else None
        if problem is None or problem.code() == KafkaError.LEADER_NOT_AVAILABLE:
            return
        if problem.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise typed(problem, complaints, servers(config.client), _WHAT)
        if time.monotonic() > appears:
            raise InvalidQuery(
                f"there is no topic {topic!r} at {servers(config.client)}", hint="create it, or see the option 'topic'"
            )
        time.sleep(0.1)


def _check_transactions(config: KafkaSinkConfig, names: TransactionNames) -> None:
    wire = Transactions(config.client, START_SECONDS)
    try:
        wire.check_versions()
        wire.initialise(names.probe, config.transaction_timeout_ms)
    except Refused as error:
        if error.code != Code.INVALID_TRANSACTION_TIMEOUT:
            raise Unavailable(f"the Kafka cluster gives no transactions: {error}") from error
        most = _allowed_timeout_ms(config)
        raise InvalidQuery(
            f"the brokers do not let a transaction stay open for {config.transaction_timeout_ms} ms"
            + (f": their transaction.max.timeout.ms is {most}" if most else ""),
            hint="lower the option kafka.transaction.timeout.ms, or raise transaction.max.timeout.ms of the brokers",
        ) from error
    finally:
        wire.close()


def _allowed_timeout_ms(config: KafkaSinkConfig) -> str | None:
    """For the message only: who may write need not be allowed to read the brokers' configuration."""
    admin = AdminClient({**config.client, "log_level": 0})
    try:
        broker = next(iter(admin.list_topics(timeout=5.0).brokers))
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        found = admin.describe_configs([resource])[resource].result(5.0)
    except (KafkaException, StopIteration, TimeoutError):
        return None
    entry = found.get("transaction.max.timeout.ms")
    return entry.value if entry is not None else None
