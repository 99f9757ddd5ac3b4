"""The document by which the brokers remember what a Kafka sink has published: the metadata of one committed offset.

::

    {"type":"kafka-note/1","attempt":3,"checkpoint":42}
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from tidegate.model import formats
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import Published

CHARACTERS_MAX = 256
"""Brokers take up to 4,096 (``offset.metadata.max.bytes``)."""

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1 << 40)]
"""No more is ever counted: a number that is far too high would take all room from those that follow it."""


class UnreadableNote(Exception):
    """It is not ours, or of a later version."""


class PublicationNote(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="kafka-note/1"):
    """Everything up to here may be visible; nothing beyond it is. Written before the transactions are committed."""

    attempt: Number
    checkpoint: Number


class _Typed(msgspec.Struct):
    """Whatever says what it is: without it, anything with two numbers would be a note."""

    type: str


def encode(published: Published) -> str:
    note = PublicationNote(attempt=published.attempt, checkpoint=published.checkpoint)
    return msgspec.json.encode(note).decode()


def decode(text: str) -> Published:
    """Anybody who may commit offsets may have written ``text``. Raises ``UnreadableNote``."""
    if len(text) > CHARACTERS_MAX:
        raise UnreadableNote(f"it has {len(text)} characters, and a note has at most {CHARACTERS_MAX}")
    try:
        data = text.encode()
        msgspec.json.decode(data, type=_Typed)
        note = formats.decode(data, PublicationNote, decoder=msgspec.json.decode)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise UnreadableNote(str(error)) from error
    return Published(Attempt(note.attempt), CheckpointId(note.checkpoint))
