"""The validated options of a Kafka sink."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.connectors.kafka.client.security import Security
from tidegate.connectors.kafka.option_table import Role
from tidegate.connectors.kafka.options import PREFIX, client_config
from tidegate.connectors.kafka.sink.columns import MessageColumns
from tidegate.connectors.kafka.sink.names import DEFAULT_PREFIX
from tidegate.connectors.kafka.sink.producer_settings import ProducerSettings
from tidegate.connectors.legacy import Sink
from tidegate.connectors.options import COMMIT_WITHIN, Options
from tidegate.model.errors import InvalidQuery

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"
TRANSACTION_TIMEOUT_MS = 900_000
"""What brokers allow unless they are told otherwise (``transaction.max.timeout.ms``)."""

_WHAT = "Kafka sink"
_OURS = ("transactional.id", "enable.idempotence", "acks", "request.required.acks", "delivery.report.only.error")
"""Set by the sink: another value would break its promise."""
_JAVA_CLASSES = frozenset({"key.serializer", "value.serializer", "partitioner.class"})


@dataclass(frozen=True, slots=True)
class KafkaSinkConfig:
    columns: MessageColumns
    guarantee: str
    client: dict[str, str] = field(repr=False)
    """Where the brokers are and how to log in. Holds credentials."""
    producer: ProducerSettings
    transaction_timeout_ms: int
    id_prefix: str
    accept_loss: bool
    """Whether output whose transaction the brokers aborted is given up rather than reported for ever."""

    @property
    def exactly_once(self) -> bool:
        return self.guarantee == EXACTLY_ONCE


def parse_sink(sink: Sink, *, warn: bool = False) -> KafkaSinkConfig:
    """Raises InvalidQuery; touches nothing."""
    options = Options(sink.options, _WHAT)
    client = _client(sink.options, warn=warn)
    options.ignore("checkpointLocation", "queryName", *(name for name in sink.options if _is_client(name)))
    for name in _OURS:
        if name in client:
            raise InvalidQuery(
                f"option 'kafka.{name}' of the Kafka sink cannot be chosen",
                hint="option transactionalIdPrefix sets what transactional ids begin with"
                if name == "transactional.id"
                else "leave it out: messages are written idempotently, to all replicas",
            )
    guarantee = options.choice(
        "deliveryGuarantee", EXACTLY_ONCE, (EXACTLY_ONCE, AT_LEAST_ONCE, "exactly-once", "at-least-once")
    ).replace("-", "_")
    if sink.partition_by:
        raise InvalidQuery("partitionBy means nothing to Kafka", hint="select a column 'key' or 'partition' instead")
    prefix = options.text("transactionalIdPrefix", DEFAULT_PREFIX) or DEFAULT_PREFIX
    config = KafkaSinkConfig(
        columns=MessageColumns.of(sink.schema, options.text("topic")),
        guarantee=guarantee,
        client={name: value for name, value in client.items() if name != "transaction.timeout.ms"},
        producer=ProducerSettings.of(client),
        transaction_timeout_ms=_milliseconds(client.get("transaction.timeout.ms")),
        id_prefix=prefix.rstrip("/"),
        accept_loss=options.choice("onLostTransaction", "fail", ("fail", "skip")) == "skip",
    )
    Security.of(config.client)
    if config.exactly_once:
        _check_patience(config.transaction_timeout_ms, options.integer(COMMIT_WITHIN, 0))
    if warn:
        options.warn_unknown()
    return config


def _check_patience(transaction_timeout_ms: int, commit_within_ms: int) -> None:
    """A transaction that the brokers abort before its checkpoint is committed is output lost."""
    if transaction_timeout_ms < commit_within_ms:
        raise InvalidQuery(
            f"Kafka transactions end after {transaction_timeout_ms} ms, but a commit may come up to {commit_within_ms} ms after "
            "their first row: checkpoint interval, checkpointTimeout and restartDelayMax together",
            hint="raise kafka.transaction.timeout.ms (brokers allow up to their transaction.max.timeout.ms), or lower one of those",
        )


def _client(options: dict[str, str], *, warn: bool) -> dict[str, str]:
    client = client_config(options, _WHAT, Role.SINK, warn=warn)
    for name in _JAVA_CLASSES & client.keys():
        raise InvalidQuery(
            f"option 'kafka.{name}' of the {_WHAT} names a Java class, and no JVM is used here",
            hint="leave it out: keys and values are written as they are, partitions are chosen as Java does",
        )
    if (memory := client.pop("buffer.memory", None)) is not None:
        client["queue.buffering.max.kbytes"] = str(max(1, int(memory) // 1024))
    return client


def _is_client(name: str) -> bool:
    return name.lower().startswith(PREFIX)


def _milliseconds(text: str | None) -> int:
    if text is None:
        return TRANSACTION_TIMEOUT_MS
    if not text.isdigit() or not 1_000 <= int(text) <= 2**31 - 1:
        raise InvalidQuery(
            f"option 'kafka.transaction.timeout.ms' of the {_WHAT} is {text!r}",
            hint="it must be a number of milliseconds, at least 1000 and many times the checkpoint interval",
        )
    return int(text)
