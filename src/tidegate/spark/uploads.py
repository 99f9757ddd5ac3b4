"""Stores snapshots in the background: encodes what is new, keeps small chunks inline, uploads the others."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from tidegate.checkpoint.layout import chunk_key, chunk_name
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex, SubtaskId
from tidegate.model.snapshot import OperatorSnapshot
from tidegate.ports.store import BlobStore
from tidegate.runtime.effects import Persist
from tidegate.runtime.persisting import Persisted, persist_states
from tidegate.spark.puts import Batch, ParallelPuts, reason_of
from tidegate.state.encoded import Encoded

PUTS_MAX = 8
"""Chunks under way at the same time: a store far away, or one that takes 0.3 s per file, is waited for once and not eight times."""


@dataclass(frozen=True, slots=True)
class Uploaded:
    checkpoint: CheckpointId
    subtask: SubtaskId
    snapshots: tuple[OperatorSnapshot, ...]
    async_ms: float
    uploaded_bytes: int


@dataclass(frozen=True, slots=True)
class UploadFailed:
    checkpoint: CheckpointId
    subtask: SubtaskId
    reason: str
    chunks: tuple[str, ...] = ()
    """Names under which something may have been stored all the same."""


UploadOutcome: TypeAlias = Uploaded | UploadFailed


@dataclass(frozen=True, slots=True)
class _Begun:
    """A snapshot that is encoded; its chunks are on their way."""

    persist: Persist
    started: float
    batch: Batch
    result: Persisted | Exception


class Uploader:
    """One thread encodes, first in first out, and several put chunks: those of one snapshot, and of the next ones, at the same time.

    ``on_done`` is called once per snapshot, in their order, by a thread that waits for the chunks of each.
    """

    def __init__(
        self,
        store: BlobStore,
        attempt: Attempt,
        slot: SlotIndex,
        on_done: Callable[[UploadOutcome], None],
        puts_max: int = PUTS_MAX,
    ) -> None:
        self._store = store
        self._attempt = attempt
        self._on_done = on_done
        self._waiting: queue.SimpleQueue[Persist | None] = queue.SimpleQueue()
        self._begun: queue.SimpleQueue[_Begun | None] = queue.SimpleQueue()
        name = f"tidegate-upload-{slot}"
        self._puts = ParallelPuts(self._put, puts_max, name)
        self._threads = (
            threading.Thread(target=self._encode, name=f"{name}-encode", daemon=True),
            threading.Thread(target=self._answer, name=f"{name}-answer", daemon=True),
        )
        for thread in self._threads:
            thread.start()

    def submit(self, persist: Persist) -> None:
        self._waiting.put(persist)

    def stop(self, timeout_s: float) -> bool:
        """Whether all threads have ended: an upload that hangs must not keep the slot."""
        until = time.monotonic() + timeout_s
        self._waiting.put(None)
        self._puts.stop()
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        ended = self._puts.join(max(0.0, until - time.monotonic()))
        return ended and not any(thread.is_alive() for thread in self._threads)

    def _encode(self) -> None:
        while (persist := self._waiting.get()) is not None:
            started, batch = time.monotonic(), Batch()
            result: Persisted | Exception
            try:
                result = persist_states(persist, self._name, partial(self._puts.begin, batch))
            except Exception as failure:  # noqa: BLE001  whatever went wrong, the checkpoint must hear of it
                result = failure
            self._begun.put(_Begun(persist, started, batch, result))
        self._begun.put(None)

    def _answer(self) -> None:
        while (begun := self._begun.get()) is not None:
            failure = self._puts.settle(begun.batch)
            if failure is None and isinstance(begun.result, Exception):
                failure = begun.result
            self._on_done(self._outcome(begun, failure))

    def _outcome(self, begun: _Begun, failure: Exception | None) -> UploadOutcome:
        persist = begun.persist
        if failure is not None or isinstance(begun.result, Exception):
            reason = reason_of(failure) if failure is not None else ""
            return UploadFailed(persist.checkpoint, persist.subtask, reason, tuple(begun.batch.names))
        async_ms = (time.monotonic() - begun.started) * 1000
        return Uploaded(
            persist.checkpoint, persist.subtask, begun.result.snapshots, async_ms, begun.result.uploaded_bytes
        )

    def _name(self, operator: OperatorId, subtask: SlotIndex, checkpoint: CheckpointId, number: int) -> str:
        return chunk_name(operator, self._attempt, subtask, checkpoint, number)

    def _put(self, name: str, data: Encoded) -> None:
        # Nobody else can form this name: refused means that our own earlier try landed, and a store may send it in parts.
        self._store.put_own(chunk_key(name), data)
