"""What all requests have in common. Each is fixed to one version; brokers say at the start whether they know it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tidegate.connectors.kafka.protocol.codec import NO_TAGS, Bytes, Reader, int16, int32, plain_string

Answer = TypeVar("Answer")

CLIENT_ID = "tidegate"


def request_header(api_key: int, version: int, correlation: int, client_id: str = CLIENT_ID) -> bytes:
    return int16(api_key) + int16(version) + int32(correlation) + plain_string(client_id)


@dataclass(frozen=True, slots=True)
class Request(Generic[Answer]):
    """One message and how to read what comes back."""

    name: str
    api_key: int
    version: int
    body: bytes
    read: Callable[[Reader], Answer]
    flexible: bool = True

    def encode(self, correlation: int, client_id: str = CLIENT_ID) -> bytes:
        """Header, body, and the length of both in front."""
        header = request_header(self.api_key, self.version, correlation, client_id)
        tags = NO_TAGS if self.flexible else b""
        message = header + tags + self.body + tags
        return int32(len(message)) + message

    def decode(self, data: Bytes) -> tuple[int, Answer]:
        """The correlation id and the answer."""
        reader = Reader(data)
        correlation = reader.int32()
        if self.flexible:
            reader.skip_tags()
        return correlation, self.read(reader)


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"
