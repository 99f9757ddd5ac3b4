"""What the driver notes in the cluster before it commits transactions, and what a start reads there.

Brokers know transactions and no checkpoints. The note says which checkpoint is being published, so a later start can tell that its
checkpoint location is older, although the attempt is the same. It is written before the first transaction is committed: after a crash in
between, it names a checkpoint whose manifest exists.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from tidegate.connectors.kafka.protocol.errors import Code, Refused
from tidegate.connectors.kafka.protocol.metadata import Partition
from tidegate.connectors.kafka.sink.publication_note import UnreadableNote, decode, encode
from tidegate.model.snapshot import Published

log = logging.getLogger("tidegate.kafka")

Result = TypeVar("Result")

FindPartition = Callable[[], Partition | None]
"""A partition that exists. None: there is nothing left to publish."""
_RIGHTS = frozenset({Code.GROUP_AUTHORIZATION_FAILED, Code.TOPIC_AUTHORIZATION_FAILED})


class Notebook(Protocol):
    """A cluster, as far as notes need it. Raises ``Refused`` for what asking again does not help, ``Unavailable`` for no answer."""

    def check_versions(self) -> None: ...
    def write(self, group: str, partition: Partition, text: str) -> None: ...
    def read(self, group: str) -> Mapping[Partition, str]: ...


class PublicationNotes:
    """The notes of one sink. Without the rights for it nothing is noted, which is said once."""

    def __init__(self, notebook: Notebook, group: str) -> None:
        self._notebook = notebook
        self._group = group
        self._newest: Published | None = None
        """Known to be noted."""
        self._partition: Partition | None = None
        self._checked = False
        self._said: set[int] = set()

    def write(self, published: Published, find: FindPartition) -> None:
        """Returns when brokers will remember it, or refuse to. A note never goes back: a commit that is repeated says nothing new."""
        if self._newest is not None and published <= self._newest:
            return
        self._partition = partition = self._partition or find()
        if partition is None:
            return
        try:
            self._check()
            self._notebook.write(self._group, partition, encode(published))
        except Refused as refused:
            self._partition = None  # Its topic may be gone.
            self._say(refused, "write")
        else:
            self._newest = published

    def read(self) -> Published | None:
        """The newest note. None: there is none that can be read."""
        try:
            self._check()
            found = self._notebook.read(self._group)
        except Refused as refused:
            self._say(refused, "read")
            return None
        notes = [note for partition, text in found.items() if (note := self._decoded(partition, text)) is not None]
        self._newest = max(notes, default=None)
        return self._newest

    def _check(self) -> None:
        if not self._checked:
            self._notebook.check_versions()
            self._checked = True

    def _decoded(self, partition: Partition, text: str) -> Published | None:
        try:
            return decode(text)
        except UnreadableNote as error:
            log.warning(
                "consumer group %s holds for partition %s of %s no note that this version can read, and it is passed over: %s. Only "
                "Tidegate commits offsets in this group, and it alone should have the right to",
                self._group,
                partition[1],
                partition[0],
                error,
            )
            return None

    def _say(self, refused: Refused, doing: str) -> None:
        if refused.code in self._said:
            return
        self._said.add(refused.code)
        rights = " The user needs the right Read on this group and on the topic." if refused.code in _RIGHTS else ""
        log.warning(
            "Kafka does not let the sink %s its note of the newest checkpoint: %s.%s The query goes on. A checkpoint location that is set back "
            "to an older checkpoint of the same attempt is not recognised without it",
            doing,
            refused,
            rights,
        )
