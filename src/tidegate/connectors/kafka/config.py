"""Options of the Kafka source, with Spark's names and meaning. What would change results and is not built is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.connectors.kafka.client.connection import ANSWER_BYTES_MAX
from tidegate.connectors.kafka.client.security import Security
from tidegate.connectors.kafka.option_table import Role
from tidegate.connectors.kafka.options import PREFIX, ClientConfig, client_config
from tidegate.connectors.kafka.protocol.fetching import Limits
from tidegate.connectors.kafka.source.edges import Edge, parse_ending, parse_starting
from tidegate.connectors.kafka.source.selection import Selection, parse_selection
from tidegate.connectors.options import Options
from tidegate.model import types as t
from tidegate.model.errors import InvalidQuery

SPARK_FORMAT, OWN_FORMAT = "kafka", "tidegate-kafka"

_HEADER = t.Struct((t.Field("key", t.STRING), t.Field("value", t.BINARY)))
_COLUMNS: t.Schema = (
    t.Field("key", t.BINARY),
    t.Field("value", t.BINARY),
    t.Field("topic", t.STRING),
    t.Field("partition", t.INTEGER),
    t.Field("offset", t.LONG),
    t.Field("timestamp", t.TIMESTAMP),
    t.Field("timestampType", t.INTEGER),
)

FETCH_DEFAULTS = {
    # How long a broker keeps a question for which it has nothing: so long it takes to learn that a log ends.
    "fetch.wait.max.ms": "100",
    "fetch.min.bytes": "1",
    "fetch.max.bytes": str(16 * 1024 * 1024),
    "max.partition.fetch.bytes": str(4 * 1024 * 1024),
    "queued.max.messages.kbytes": "65536",
}
"""Options of fetching."""
WAIT_MS_MAX = 5_000
"""A broker that says nothing for some times that long is taken for dead."""

_DECIDED_HERE = {
    "auto.offset.reset": "startingOffsets says where to start, failOnDataLoss what to do when rows are gone",
    "enable.auto.commit": "offsets are committed after each checkpoint, to kafka.group.id",
    "enable.auto.offset.store": "offsets are committed after each checkpoint, to kafka.group.id",
    "enable.partition.eof": "the source needs it",
    "key.deserializer": "keys are bytes; cast or decode them in the query",
    "value.deserializer": "values are bytes; cast or decode them in the query",
}


@dataclass(frozen=True, slots=True)
class KafkaSourceConfig:
    what: str
    """For messages: ``kafka source``."""
    client: ClientConfig = field(repr=False)
    """Where the brokers are, how to log in, how much to fetch. Holds secrets."""
    selection: Selection
    starting: Edge
    ending: Edge | None
    fail_on_data_loss: bool
    committed_only: bool
    """Rows of open and aborted transactions are not read."""
    partition_order: bool | None
    """Whether a row may be late for an earlier one of its partition. None: in a run without end."""
    group: str | None
    """Consumer group to which offsets are committed, for whoever watches; never read."""

    def is_ordered(self, *, stops: bool) -> bool:
        """``stops``: the run has an end."""
        if self.partition_order is False and not stops:
            raise InvalidQuery(
                f"option 'partitionOrder' of the {self.what} is off in a run without end: no window would ever close",
                hint="leave it out, or give the run an end: trigger(availableNow=True)",
            )
        return not stops if self.partition_order is None else self.partition_order

    @property
    def servers(self) -> str:
        return str(self.client["bootstrap.servers"])

    @property
    def limits(self) -> Limits:
        return Limits(
            wait_ms=min(self._number("fetch.wait.max.ms"), WAIT_MS_MAX),
            bytes_min=self._number("fetch.min.bytes"),
            bytes_max=min(self._number("fetch.max.bytes"), ANSWER_BYTES_MAX // 2),
            partition_bytes_max=self._number("max.partition.fetch.bytes"),
        )

    @property
    def queue_bytes_max(self) -> int:
        return 1024 * self._number("queued.max.messages.kbytes")

    def _number(self, name: str) -> int:
        return int(self.client.get(name, FETCH_DEFAULTS[name]))

    def lost(self, message: str) -> InvalidQuery:
        """Rows are gone that the query was to read."""
        return InvalidQuery(
            f"{message}; the {self.what} stops because rows may be lost",
            hint="to go on with what is there, set option failOnDataLoss to false",
        )


def source_schema(options: Mapping[str, str]) -> t.Schema:
    """Spark's columns, in Spark's order."""
    headers = Options(options, "kafka source").flag("includeHeaders")
    return (*_COLUMNS, t.Field("headers", t.Array(_HEADER))) if headers else _COLUMNS


def parse_kafka(form: str, given: Mapping[str, str], *, warn: bool = False) -> KafkaSourceConfig:
    """Validates all options. ``warn``: also report options that nobody knows (once, on the driver)."""
    options = Options(given, f"{form} source")
    client = client_config(given, options.what, Role.SOURCE, warn=warn)
    options.ignore(*(name for name in given if name.lower().startswith(PREFIX)))
    for name, why in _DECIDED_HERE.items():
        if options.text(PREFIX + name) is not None:
            raise InvalidQuery(f"option 'kafka.{name}' of the {options.what} cannot be set", hint=why)
    isolation = options.choice("kafka.isolation.level", "read_committed", ("read_committed", "read_uncommitted"))
    options.ignore("includeHeaders", "path", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs")
    options.ignore("fetchOffset.numRetries", "fetchOffset.retryIntervalMs")
    options.ignore("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
    options.refuse(
        "minPartitions",
        "maxRecordsPerPartition",
        hint="a partition is read by one slot, in order; repartition() behind the source spreads the work",
    )
    Security.of(client)
    config = KafkaSourceConfig(
        what=options.what,
        client=client | {"isolation.level": isolation},
        selection=parse_selection(options),
        starting=parse_starting(options),
        ending=parse_ending(options),
        fail_on_data_loss=options.flag("failOnDataLoss", default=True),
        committed_only=isolation == "read_committed",
        partition_order=_partition_order(options),
        group=options.text("kafka.group.id"),
    )
    if warn:
        options.warn_unknown()
    return config


def _partition_order(options: Options) -> bool | None:
    if options.text("partitionOrder") is None:
        return None
    return options.choice("partitionOrder", "on", ("on", "off")) == "on"
