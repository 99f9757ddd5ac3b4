"""Requests about the offsets that a cluster keeps under the name of a consumer group. Nobody is a member of the group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.connectors.kafka.protocol.codec import NO_TAGS, NULL_ARRAY, Reader, array, int32, int64, string, varint
from tidegate.connectors.kafka.protocol.metadata import Partition, by_topic
from tidegate.connectors.kafka.protocol.requests import Request

NO_OFFSET = 0
"""The offset beside a text, which means nothing: lower than any end, so no tool takes it for a partition that was cut off."""
_NULL_STRING = varint(0)
_NO_MEMBER = int32(-1) + string("") + _NULL_STRING
"""Generation, member and instance of somebody who commits without being a member."""
_UNKNOWN_EPOCH = int32(-1)


@dataclass(frozen=True, slots=True)
class GroupTexts:
    error: int
    texts: Mapping[Partition, str]
    errors: Mapping[Partition, int]


def commit_offsets(group: str, offsets: Mapping[Partition, tuple[int, str]]) -> Request[dict[Partition, int]]:
    """In place of what was there: an offset and a text for each partition. Answers with their error codes."""

    def read(reader: Reader) -> dict[Partition, int]:
        reader.int32()  # how long we were throttled
        errors: dict[Partition, int] = {}
        for _ in range(reader.length()):
            topic = reader.text()
            for _ in range(reader.length()):
                number = reader.int32()
                errors[topic, number] = reader.int16()
                reader.skip_tags()
            reader.skip_tags()
        return errors

    def one(partition: Partition) -> bytes:
        offset, text = offsets[partition]
        return int32(partition[1]) + int64(offset) + _UNKNOWN_EPOCH + string(text) + NO_TAGS

    topics = tuple(string(topic) + array(tuple(map(one, some))) + NO_TAGS for topic, some in by_topic(offsets))
    return Request("OffsetCommit", 8, 8, string(group) + _NO_MEMBER + array(topics), read)


def commit_text(group: str, partition: Partition, text: str) -> Request[int]:
    """The text alone, for one partition. Answers with an error code."""
    request = commit_offsets(group, {partition: (NO_OFFSET, text)})

    def read(reader: Reader) -> int:
        errors = list(request.read(reader).values())
        return errors[0] if len(errors) == 1 else -1

    return Request(request.name, request.api_key, request.version, request.body, read)


def fetch_texts(group: str) -> Request[GroupTexts]:
    """The texts of all partitions that the group has an offset for, and that we may know."""

    def read(reader: Reader) -> GroupTexts:
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
        return GroupTexts(reader.int16(), texts, errors)

    return Request("OffsetFetch", 9, 6, string(group) + NULL_ARRAY, read)


USED = tuple((one.name, one.api_key, one.version) for one in (commit_text("", ("", 0), ""), fetch_texts("")))
"""What a broker must know for it: name, API key, version."""
