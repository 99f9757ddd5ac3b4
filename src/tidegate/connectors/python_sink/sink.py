"""A user's streaming data source as a sink: ``write`` per subtask and checkpoint in the slots, ``commit`` and ``abort`` on the driver."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import groupby
from typing import ClassVar

import msgspec
import polars as pl

from tidegate.checkpoint.layout import ManifestRef
from tidegate.connectors.batch_commits import BatchCommitter
from tidegate.connectors.batches import Batches
from tidegate.connectors.current_batch import inside
from tidegate.connectors.python_sink.feed import Feed
from tidegate.connectors.python_sink.writers import UserSink
from tidegate.model.formats import Upgrade, Upgrades
from tidegate.model.ids import Attempt, BatchId, CheckpointId, SlotIndex
from tidegate.model.snapshot import Committable
from tidegate.operators.values import decoded
from tidegate.ports.context import CommitterContext
from tidegate.ports.sink import SinkWriter

log = logging.getLogger("tidegate.connectors")

ABANDON_TIMEOUT_S = 5.0


class PickledMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="python-sink/1"):
    """As ``MessageToCommit``, but ``message`` was pickled by PySpark."""

    attempt: Attempt
    key: str
    message: bytes


def upgrade_1_to_2(old: PickledMessage) -> MessageToCommit:
    """The bytes stay what they are: what lies beside the checkpoints under ``key`` was pickled, too, and ``messages.py`` tells them apart."""
    return MessageToCommit(attempt=old.attempt, key=old.key, message=old.message)


class MessageToCommit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="python-sink/2"):
    """What ``write`` of one subtask returned for one checkpoint. ``message``: the fields of the user's own object, as ``messages.py``
    stores them. ``key``: a copy of it beside the checkpoints, from which ``abort`` learns of it when no checkpoint names it."""

    UPGRADES: ClassVar[Upgrades] = (Upgrade(PickledMessage, upgrade_1_to_2),)

    attempt: Attempt
    key: str
    message: bytes


def decode(payload: bytes) -> MessageToCommit:
    return decoded(payload, MessageToCommit, "a committable of a Python data source")


class PythonSinkWriter(SinkWriter):
    """Nothing written between two barriers: ``write`` is not called. In output mode complete it is: no rows are a result, too."""

    def __init__(self, user: UserSink, batches: Batches, attempt: Attempt, subtask: SlotIndex) -> None:
        self._user = user
        self._batches = batches
        self._attempt = attempt
        self._subtask = subtask
        self._feed: Feed | None = None

    def write(self, rows: pl.DataFrame) -> None:
        self._begun().put(rows)

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        if self._feed is None and not self._user.overwrite:
            return ()
        feed, self._feed = self._begun(), None
        message = feed.finish()
        assert isinstance(message, bytes)
        key = self._batches.put(self._attempt, self._subtask, checkpoint, message)
        return (msgspec.msgpack.encode(MessageToCommit(attempt=self._attempt, key=key, message=message)),)

    def close(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None and not feed.abandon(ABANDON_TIMEOUT_S):
            log.warning("write() of data source %s did not end within %s s", self._user.name, ABANDON_TIMEOUT_S)

    def _begun(self) -> Feed:
        if self._feed is None:
            self._feed = Feed(self._user.write, f"tidegate-write-{self._user.name}-{self._subtask}")
        return self._feed


class PythonSinkCommitter(BatchCommitter[MessageToCommit]):
    """Driver side: ``commit(messages, batch_id)`` for a batch, ``abort`` for what no checkpoint holds."""

    def __init__(self, user: UserSink, context: CommitterContext) -> None:
        super().__init__(context)
        self._user = user
        self._user.writer()

    def sweep(self, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        """``abort`` for what older attempts wrote and no checkpoint holds, one call per attempt and checkpoint."""
        kept = {decode(one.payload).key for one in keep}
        waiting = [one for one in self._batches.older_than(older_than) if one.key not in kept]
        waiting.sort(key=lambda one: (one.attempt, one.number, one.subtask))
        for (attempt, checkpoint), group in groupby(waiting, key=lambda one: (one.attempt, one.number)):
            keys = [one.key for one in group]
            ref = ManifestRef(CheckpointId(checkpoint), attempt)
            if not self._batches.is_done(ref):
                # It was no batch yet. The next one is what it would have been, as where Spark tries a batch again.
                with inside(self._context, self._ids.following):
                    self._abort(self._ids.following, keys)
            self._batches.delete(keys)

    def _decode(self, payload: bytes) -> MessageToCommit:
        return decode(payload)

    def _keys(self, prepared: MessageToCommit) -> Iterable[str]:
        return (prepared.key,)

    def _call(self, batch: BatchId, prepared: list[MessageToCommit]) -> None:
        writer = self._user.writer()
        messages = [self._user.message(one.message, one.key, writer) for one in prepared]
        try:
            writer.commit(list(messages), int(batch))
        except Exception as error:
            raise self._user.failed(error, f"in commit() of batch {batch}") from error

    def _abort(self, batch: BatchId, keys: list[str]) -> None:
        writer = self._user.writer()
        messages = [self._user.message(self._batches.read(key), key, writer) for key in keys]
        try:
            writer.abort(list(messages), int(batch))
        except Exception as error:
            raise self._user.failed(error, f"in abort() of batch {batch}") from error
