"""Names of transactions, and the document by which a checkpoint remembers one that waits for its commit.

::

    tidegate/<pipeline>/<sink>/<attempt>/<subtask>/<k>

The attempt is part of the name: nobody of another attempt ever initialises it, except to abort what is left behind.
What stands before it is also the consumer group of the driver's notes. ``k`` comes from a small pool, because brokers remember every
name for a week.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from tidegate.connectors.kafka.protocol.transactions import Handle
from tidegate.connectors.legacy import Sink
from tidegate.connectors.ownership import pipeline_of
from tidegate.model.ids import Attempt, SlotIndex
from tidegate.operators.values import decoded

DEFAULT_PREFIX = "tidegate"


@dataclass(frozen=True, slots=True)
class TransactionNames:
    """All names of one sink of one pipeline. No other sink's can equal them, whatever the ids are made of."""

    prefix: str
    """What the names begin with; ends with a slash."""

    @classmethod
    def of(cls, sink: Sink, prefix: str) -> TransactionNames:
        return cls(f"{prefix}/{quote(pipeline_of(sink), safe='')}/{quote(sink.id, safe='')}/")

    def name(self, attempt: Attempt, subtask: SlotIndex, k: int) -> str:
        return f"{self.prefix}{attempt:06d}/{subtask:05d}/{k}"

    @property
    def probe(self) -> str:
        """Initialised at start to see whether the cluster allows what the sink will ask for. Never has a record."""
        return f"{self.prefix}start"

    @property
    def group(self) -> str:
        """The consumer group in which the driver notes what it publishes. Has no members."""
        return self.prefix.removesuffix("/")

    def attempt_of(self, name: str) -> Attempt | None:
        """Whose it is; None if it is no transaction of this sink."""
        parts = name.removeprefix(self.prefix).split("/")
        if not name.startswith(self.prefix) or len(parts) != 3 or not all(part.isdigit() for part in parts):
            return None
        return Attempt(int(parts[0]))


class PreparedTransaction(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="kafka/1"):
    """A transaction whose records all brokers have, and nobody writes to any more."""

    transactional_id: str
    producer_id: int
    epoch: int

    @property
    def handle(self) -> Handle:
        return Handle(self.transactional_id, self.producer_id, self.epoch)


def encode(handle: Handle) -> bytes:
    return msgspec.msgpack.encode(
        PreparedTransaction(
            transactional_id=handle.transactional_id, producer_id=handle.producer_id, epoch=handle.epoch
        )
    )


def decode(payload: bytes) -> PreparedTransaction:
    return decoded(payload, PreparedTransaction, "a committable of the Kafka sink")
