"""A user's streaming data source as a sink: ``write`` per subtask and checkpoint in the slots, ``commit`` and ``abort`` on the driver."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import groupby

import msgspec
import polars as pl

from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.ports import BlobStore
from tidegate.connectors.batch_commits import BatchCommitter
from tidegate.connectors.batches import Batches
from tidegate.connectors.python_sink.feed import Feed
from tidegate.connectors.python_sink.writers import UserSink
from tidegate.model.errors import InvalidQuery
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.snapshot import Committable
from tidegate.operators.values import decoded
from tidegate.plan.relational import Sink

log = logging.getLogger("tidegate.connectors")

ABANDON_TIMEOUT_S = 5.0


class MessageToCommit(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="python-sink/1"):
    """What ``write`` of one subtask returned for one checkpoint. ``message`` is the user's own object, pickled by PySpark: it is
    unpickled by nobody but his ``commit`` or ``abort``. ``key``: a copy of it beside the checkpoints, from which ``abort`` learns
    of it when no checkpoint names it."""

    attempt: Attempt
    key: str
    message: bytes


def decode(payload: bytes) -> MessageToCommit:
    return decoded(payload, MessageToCommit, "a committable of a Python data source")


class PythonSink:
    """Slot side. Exactly once if ``commit`` twice with the same batch id is the same as once."""

    guarantee = "idempotent"

    def __init__(self) -> None:
        self._store: BlobStore | None = None

    def use(self, store: BlobStore) -> None:
        self._store = store

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> PythonSinkWriter:
        return PythonSinkWriter(UserSink.of(sink), Batches(self._store, sink.id), attempt, subtask)


class PythonSinkWriter:
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
    """Driver side: ``commit(messages, batch_id)`` for a checkpoint, ``abort`` for what none holds."""

    def __init__(self, sink: Sink) -> None:
        check_sink(sink)
        super().__init__(sink.id)
        self._user = UserSink.of(sink)
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
                self._abort(ref, keys)
            self._batches.delete(keys)

    def _decode(self, payload: bytes) -> MessageToCommit:
        return decode(payload)

    def _keys(self, prepared: MessageToCommit) -> Iterable[str]:
        return (prepared.key,)

    def _call(self, checkpoint: CheckpointId, prepared: list[MessageToCommit]) -> None:
        messages = [self._user.message(one.message) for one in prepared]
        try:
            self._user.writer().commit(list(messages), int(checkpoint))
        except Exception as error:
            raise self._user.failed(error, f"in commit() of batch {checkpoint}") from error

    def _abort(self, ref: ManifestRef, keys: list[str]) -> None:
        messages = [self._user.message(self._batches.read(key)) for key in keys]
        try:
            self._user.writer().abort(list(messages), int(ref.checkpoint))
        except Exception as error:
            raise self._user.failed(error, f"in abort() of batch {ref.checkpoint}") from error


def check_sink(sink: Sink) -> None:
    if sink.partition_by:
        raise InvalidQuery(
            f"partitionBy has no meaning for the data source {sink.format}", hint="leave it out: Spark ignores it, too"
        )
