"""A text that a cluster keeps under the name of a consumer group: the metadata of a committed offset. Nobody is a member of the group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from tidegate.connectors.kafka.wire.brokers import PATIENCE_SECONDS, Brokers
from tidegate.connectors.kafka.wire.codec import NO_TAGS, NULL_ARRAY, Reader, array, int32, int64, string, varint
from tidegate.connectors.kafka.wire.errors import RETRIABLE, Code, Refused
from tidegate.connectors.kafka.wire.producing import Partition
from tidegate.connectors.kafka.wire.requests import GROUP, Address, Request, brokers, find_coordinator

Answer = TypeVar("Answer")

NO_OFFSET = 0
"""The offset beside the text, which means nothing: lower than any end, so no tool takes it for a partition that was cut off."""
_NULL_STRING = varint(0)
_NO_MEMBER = int32(-1) + string("") + _NULL_STRING
"""Generation, member and instance of whoever commits without being one."""
_UNKNOWN_EPOCH = int32(-1)


@dataclass(frozen=True, slots=True)
class Fetched:
    error: int
    texts: Mapping[Partition, str]
    errors: Mapping[Partition, int]


class Groups(Brokers):
    """Connections are kept. Not for several threads at a time. Raises ``Refused`` for what asking again does not help."""

    def __init__(self, options: Mapping[str, str], patience_s: float = PATIENCE_SECONDS) -> None:
        super().__init__(options, patience_s)
        self._coordinators: dict[str, Address] = {}

    def check_versions(self) -> None:
        for name, version in self.unknown(USED):
            raise Refused(Code.UNSUPPORTED_VERSION, f"{name} version {version}")

    def write(self, group: str, partition: Partition, text: str) -> None:
        """In place of what was there."""

        def once() -> None:
            self._check(self._ask(self._coordinator(group), commit_text(group, partition, text)), group)

        self._patiently("a note in a consumer group", once)

    def read(self, group: str) -> dict[Partition, str]:
        """All texts of the group that are not empty. A group that nobody knows has none."""

        def once() -> dict[Partition, str]:
            answer = self._ask(self._coordinator(group), fetch_texts(group))
            for error in (answer.error, *answer.errors.values()):
                self._check(error, group)
            return {partition: text for partition, text in answer.texts.items() if text}

        return self._patiently("the notes of a consumer group", once)

    def _coordinator(self, group: str) -> Address:
        known = self._coordinators.get(group)
        if known is None:
            self._brokers = self._brokers or self._any(brokers())
            answer = self._any(find_coordinator(group, GROUP))
            self._check(answer.error, group)
            known = self._coordinators[group] = answer.address
        return known

    def _check(self, error: int, group: str) -> None:
        if error:
            if error in RETRIABLE:
                self._coordinators.pop(group, None)
            raise Refused(error, f"consumer group {group}")

    def _drop(self, address: Address) -> None:
        """What this broker coordinated may be elsewhere by now."""
        super()._drop(address)
        self._coordinators = {one: at for one, at in self._coordinators.items() if at != address}


def commit_text(group: str, partition: Partition, text: str) -> Request[int]:
    """Answers with an error code."""

    def read(reader: Reader) -> int:
        reader.int32()  # how long we were throttled
        errors: list[int] = []
        for _ in range(reader.length()):
            reader.text()
            for _ in range(reader.length()):
                reader.int32()
                errors.append(reader.int16())
                reader.skip_tags()
            reader.skip_tags()
        return errors[0] if len(errors) == 1 else -1

    topic, number = partition
    offset = int32(number) + int64(NO_OFFSET) + _UNKNOWN_EPOCH + string(text) + NO_TAGS
    topics = array((string(topic) + array((offset,)) + NO_TAGS,))
    return Request("OffsetCommit", 8, 8, string(group) + _NO_MEMBER + topics, read)


def fetch_texts(group: str) -> Request[Fetched]:
    """Of every partition that the group has an offset for, and that we may know."""

    def read(reader: Reader) -> Fetched:
        reader.int32()
        texts: dict[Partition, str] = {}
        errors: dict[Partition, int] = {}
        for _ in range(reader.length()):
            topic = reader.text()
            for _ in range(reader.length()):
                partition = topic, reader.int32()
                reader.int64()  # the offset
                reader.int32()  # the epoch of its leader
                texts[partition], errors[partition] = reader.text(), reader.int16()
                reader.skip_tags()
            reader.skip_tags()
        return Fetched(reader.int16(), texts, errors)

    return Request("OffsetFetch", 9, 6, string(group) + NULL_ARRAY, read)


USED = tuple((one.name, one.api_key, one.version) for one in (commit_text("", ("", 0), ""), fetch_texts("")))
"""What a broker must know for it: name, API key, version."""
