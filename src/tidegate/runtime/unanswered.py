"""Messages to the driver that are sent again until an answer shows that they were heard. Any message may be lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidegate.model.ids import CheckpointId, SubtaskId
from tidegate.model.messages import DriverMessage, SlotReady, SubtaskAcked, SubtaskDeclined
from tidegate.runtime.alignment import Over
from tidegate.runtime.effects import Tell

_Key: TypeAlias = tuple[CheckpointId, SubtaskId] | None


@dataclass(slots=True)
class _Waiting:
    message: DriverMessage
    due_ms: float


class Unanswered:
    """Ready: until the driver triggers or assigns. Acks and declines: until their checkpoint is known to be over."""

    def __init__(self, repeat_ms: float) -> None:
        self._repeat_ms = repeat_ms
        self._waiting: dict[_Key, _Waiting] = {}
        self._over = Over()

    def sent(self, message: DriverMessage, now_ms: float) -> None:
        """Told to the driver for the first time; other kinds of messages are nobody's concern here."""
        match message:
            case SlotReady():
                self._waiting[None] = _Waiting(message, now_ms + self._repeat_ms)
            case (
                SubtaskAcked(checkpoint=checkpoint, subtask=subtask)
                | SubtaskDeclined(checkpoint=checkpoint, subtask=subtask)
            ):
                if checkpoint not in self._over:
                    self._waiting[checkpoint, subtask] = _Waiting(message, now_ms + self._repeat_ms)
            case _:
                pass

    def repeat(self, now_ms: float) -> tuple[Tell, ...]:
        """What is due for another try."""
        due = [one for one in self._waiting.values() if now_ms >= one.due_ms]
        for one in due:
            one.due_ms = now_ms + self._repeat_ms
        return tuple(Tell(one.message) for one in due)

    @property
    def next_due_ms(self) -> float:
        return min((one.due_ms for one in self._waiting.values()), default=float("inf"))

    def ready_heard(self) -> None:
        self._waiting.pop(None, None)

    def completed(self, checkpoint: CheckpointId) -> None:
        """Older checkpoints are over with it."""
        self._over = self._over.with_passed(checkpoint)
        self._forget()

    def aborted(self, checkpoint: CheckpointId) -> None:
        self._over = self._over.with_cancelled(checkpoint)
        self._forget()

    def _forget(self) -> None:
        self._waiting = {key: one for key, one in self._waiting.items() if key is None or key[0] not in self._over}
