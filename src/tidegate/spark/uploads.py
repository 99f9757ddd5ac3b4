"""Stores snapshots in the background: encodes what is new, keeps small chunks inline, uploads the others."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.checkpoint.layout import chunk_key, chunk_name
from tidegate.checkpoint.ports import BlobStore
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex, SubtaskId
from tidegate.model.snapshot import OperatorSnapshot
from tidegate.runtime.effects import Persist
from tidegate.runtime.persisting import NotStored, persist_states


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


class Uploader:
    """One thread, first in first out. ``on_done`` is called in it, once per snapshot."""

    def __init__(
        self, store: BlobStore, attempt: Attempt, slot: SlotIndex, on_done: Callable[[UploadOutcome], None]
    ) -> None:
        self._store = store
        self._attempt = attempt
        self._on_done = on_done
        self._waiting: queue.SimpleQueue[Persist | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"tidegate-upload-{slot}", daemon=True)
        self._thread.start()

    def submit(self, persist: Persist) -> None:
        self._waiting.put(persist)

    def stop(self, timeout_s: float) -> bool:
        """Whether the thread has ended: an upload that hangs must not keep the slot."""
        self._waiting.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (persist := self._waiting.get()) is not None:
            started = time.monotonic()
            outcome: UploadOutcome
            try:
                persisted = persist_states(persist, self._name, self._put)
                outcome = Uploaded(
                    persist.checkpoint,
                    persist.subtask,
                    persisted.snapshots,
                    (time.monotonic() - started) * 1000,
                    persisted.uploaded_bytes,
                )
            except NotStored as failure:
                outcome = UploadFailed(persist.checkpoint, persist.subtask, failure.reason, failure.chunks)
            except Exception as failure:  # noqa: BLE001  whatever went wrong, the checkpoint must hear of it
                outcome = UploadFailed(persist.checkpoint, persist.subtask, f"{type(failure).__name__}: {failure}")
            self._on_done(outcome)

    def _name(self, operator: OperatorId, subtask: SlotIndex, checkpoint: CheckpointId, number: int) -> str:
        return chunk_name(operator, self._attempt, subtask, checkpoint, number)

    def _put(self, name: str, data: bytes) -> None:
        # Refused means that our own earlier try landed: nobody else can form this name.
        self._store.create(chunk_key(name), data)
