"""How a sink puts messages together: sizes, compression, the choice of a partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from tidegate.connectors.kafka.protocol.compression import CODECS, UNCOMPRESSED, Compression
from tidegate.connectors.kafka.protocol.partitioner import Partitioner
from tidegate.model.errors import InvalidQuery

_UNSENT_BYTES_MAX = 64 << 20
_CODECS_WITH_LEVELS = ("gzip", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Sizes in bytes."""

    message_bytes_max: int = 1_000_000
    batch_bytes_max: int = 1_000_000
    unsent_bytes_max: int = _UNSENT_BYTES_MAX
    unsent_rows_max: int = 500_000
    compression: Compression = UNCOMPRESSED
    partitioner: Partitioner = Partitioner.MURMUR2_RANDOM

    @classmethod
    def of(cls, client: Mapping[str, str]) -> ProducerSettings:
        by_keys = client.get("partitioner.ignore.keys", "false").lower() == "false"
        named = client.get("partitioner", "murmur2_random").lower()
        return cls(
            message_bytes_max=int(client.get("message.max.bytes", "1000000")),
            batch_bytes_max=int(client.get("batch.size", "1000000")),
            unsent_bytes_max=min(_UNSENT_BYTES_MAX, 1024 * int(client.get("queue.buffering.max.kbytes", "131072"))),
            unsent_rows_max=int(client.get("queue.buffering.max.messages", "500000")),
            compression=_compression(client),
            partitioner=Partitioner(named) if by_keys else Partitioner.RANDOM,
        )


def _compression(client: Mapping[str, str]) -> Compression:
    codec = client.get("compression.type", "none").lower()
    named = client.get(f"compression.{codec}.level", client.get("compression.level", "-1"))
    level = None if named == "-1" or codec not in _CODECS_WITH_LEVELS else int(named)
    if level is not None and not _minimum(codec) <= level <= _maximum(codec):
        raise InvalidQuery(
            f"the level of compression of the Kafka sink is {level}",
            hint=f"{codec} takes {_minimum(codec)} to {_maximum(codec)}, and -1 for what it takes by itself",
        )
    return Compression(CODECS[codec], level)


def _minimum(codec: str) -> int:
    return pa.Codec.minimum_compression_level(codec)


def _maximum(codec: str) -> int:
    return pa.Codec.maximum_compression_level(codec)
