"""Requests about the cluster itself: its brokers, its topics, who coordinates what, which versions it speaks."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from tidegate.connectors.kafka.protocol.codec import NO_TAGS, NULL_ARRAY, Reader, array, boolean, int8, string
from tidegate.connectors.kafka.protocol.requests import Address, Request

Partition = tuple[str, int]
"""Topic and number."""

GROUP, TRANSACTION = 0, 1
"""The kinds of keys that FindCoordinator looks for."""
METADATA, WITHOUT_IDS, WITH_IDS = 3, 9, 10
"""The key of Metadata, and its versions: brokers before 2.8 know no ids of topics."""
_ID_BYTES = 16
_BROKER_CONFIG = 4


@dataclass(frozen=True, slots=True)
class TopicLeaders:
    error: int
    leaders: Mapping[int, Address | None]
    """By partition; None: there is none at the moment."""
    id: str = ""
    """Empty: the broker does not say."""


@dataclass(frozen=True, slots=True)
class Metadata:
    brokers: Mapping[int, Address]
    """Those that are up, by number."""
    topics: Mapping[str, TopicLeaders]


@dataclass(frozen=True, slots=True)
class Coordinator:
    """Who keeps a transactional id or a consumer group, or why nobody knows."""

    error: int
    address: Address


def by_topic(partitions: Iterable[Partition]) -> list[tuple[str, list[Partition]]]:
    """As requests name them."""
    return in_order(sorted(partitions))


def in_order(partitions: Iterable[Partition]) -> list[tuple[str, list[Partition]]]:
    """As they come: a topic is named again when others stood in between."""
    return [(topic, list(some)) for topic, some in groupby(partitions, key=lambda one: one[0])]


def metadata(names: Iterable[str] | None, version: int = WITHOUT_IDS, *, create: bool = False) -> Request[Metadata]:
    """What the cluster knows about these topics; None: about all. ``create``: brokers that are set to do so may make them."""

    def read(reader: Reader) -> Metadata:
        reader.int32()
        brokers = _brokers(reader)
        reader.string()  # the cluster
        reader.int32()  # its controller
        return Metadata(brokers, dict(_topic(reader, version, brokers) for _ in range(reader.length())))

    no_id = bytes(_ID_BYTES) if version >= WITH_IDS else b""
    wanted = NULL_ARRAY if names is None else array(tuple(no_id + string(name) + NO_TAGS for name in names))
    no_rights = boolean(False) + boolean(False)
    return Request("Metadata", METADATA, version, wanted + boolean(create) + no_rights, read)


def _brokers(reader: Reader) -> dict[int, Address]:
    found: dict[int, Address] = {}
    for _ in range(reader.length()):
        node = reader.int32()
        found[node] = Address(reader.text(), reader.int32())
        reader.string()  # its rack
        reader.skip_tags()
    return found


def _topic(reader: Reader, version: int, brokers: Mapping[int, Address]) -> tuple[str, TopicLeaders]:
    error, name = reader.int16(), reader.text()
    identity = _identity(bytes(reader.take(_ID_BYTES))) if version >= WITH_IDS else ""
    reader.int8()
    leaders: dict[int, Address | None] = {}
    for _ in range(reader.length()):
        reader.int16()
        number, leader = reader.int32(), reader.int32()
        reader.int32()
        for _ in range(3):  # replicas: all, in sync, not there
            reader.take(4 * reader.length())
        reader.skip_tags()
        leaders[number] = brokers.get(leader)
    reader.int32()
    reader.skip_tags()
    return name, TopicLeaders(error, leaders, identity)


def _identity(data: bytes) -> str:
    """As splits have stored it since the first release. Zeros: there is none."""
    return base64.b64encode(data).decode().rstrip("=") if any(data) else ""


def find_coordinator(key: str, kind: int = TRANSACTION) -> Request[Coordinator]:
    def read(reader: Reader) -> Coordinator:
        reader.int32()  # how long we were throttled
        error = reader.int16()
        reader.string()  # the error in words
        reader.int32()
        return Coordinator(error, Address(reader.text(), reader.int32()))

    return Request("FindCoordinator", 10, 3, string(key) + int8(kind), read)


def api_versions() -> Request[dict[int, tuple[int, int]]]:
    """What the broker speaks: lowest and highest version by API key. Every broker understands version 0 of this one."""

    def read(reader: Reader) -> dict[int, tuple[int, int]]:
        reader.int16()
        return {reader.int16(): (reader.int16(), reader.int16()) for _ in range(reader.plain_length())}

    return Request("ApiVersions", 18, 0, b"", read, flexible=False)


def describe_broker(node: int, names: Iterable[str]) -> Request[dict[str, str]]:
    """Settings of the broker that is asked, which has to be this one. Those that it does not show are left out."""

    def read(reader: Reader) -> dict[str, str]:
        reader.int32()
        found: dict[str, str] = {}
        for _ in range(reader.length()):
            reader.int16()
            reader.string()
            reader.int8()
            reader.text()
            for _ in range(reader.length()):
                name, value = _setting(reader)
                if value is not None:
                    found[name] = value
            reader.skip_tags()
        return found

    wanted = int8(_BROKER_CONFIG) + string(str(node)) + array(tuple(map(string, names))) + NO_TAGS
    return Request("DescribeConfigs", 32, 4, array((wanted,)) + boolean(False) + boolean(False), read)


def _setting(reader: Reader) -> tuple[str, str | None]:
    name, value = reader.text(), reader.string()
    reader.take(3)  # whether it is read-only, where it comes from, whether it is secret
    for _ in range(reader.length()):  # synonyms
        reader.text()
        reader.string()
        reader.int8()
        reader.skip_tags()
    reader.int8()
    reader.string()  # what it means
    reader.skip_tags()
    return name, value


USED = (("Metadata", METADATA, WITHOUT_IDS),)
"""What a broker must know to be asked about topics: name, API key, version."""
