"""Events and effects as one line of history: who did what to which checkpoint, without the bytes."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.manifest import Manifest
from tidegate.model import messages
from tidegate.model.snapshot import SplitPosition

_DULL = frozenset({"now_ms", "facts", "state", "hint"})


def tell(what: ev.Event | fx.Effect) -> str:
    match what:
        case ev.SlotSaid(_, message):
            return _message(message)
        case fx.SendToSlots(message, slots):
            return f"{_message(message)} to {'all' if slots is None else ','.join(map(str, slots))}"
        case fx.ReportCheckpoint(report):
            return f"report {report}"[:200]
        case fx.CommitSinks(attempt, checkpoint, committables):
            return f"CommitSinks {checkpoint} of attempt {attempt}: {sum(len(c) for _, c in committables)}"
        case fx.SweepSinks(_, older_than):
            return f"SweepSinks older than attempt {older_than}"
        case fx.Delete(_, keys):
            return f"Delete {len(keys)}: {', '.join(keys[:6])}"
        case _:
            return f"{type(what).__name__} {_fields(what)}".rstrip()


def _message(message: messages.SlotMessage | messages.DriverMessage) -> str:
    name = type(message).__name__
    match message:
        case messages.SubtaskAcked(subtask=subtask, checkpoint=checkpoint):
            return f"{name} {checkpoint} by {subtask}"
        case messages.SubtaskDeclined(subtask=subtask, checkpoint=checkpoint, reason=reason):
            return f"{name} {checkpoint} by {subtask}: {reason[:100]}"
        case messages.AssignSplits(operator=operator, subtask=subtask, sequence=sequence, splits=splits, no_more=over):
            return f"{name} {operator} → {subtask} #{sequence}: {_splits(splits)}{', no more' if over else ''}"
        case messages.SplitsWanted(operator=operator, slot=slot, open=still_open, finished=finished):
            return f"{name} {operator} by {slot}: open {still_open}, finished {finished}"
        case messages.TriggerCheckpoint(checkpoint=checkpoint, kind=kind):
            return f"{name} {checkpoint} ({kind.value})"
        case (
            messages.CheckpointCompleted(checkpoint=checkpoint)
            | messages.CheckpointCommitted(checkpoint=checkpoint)
            | messages.CheckpointAborted(checkpoint=checkpoint)
        ):
            return f"{name} {checkpoint}"
        case _:
            return f"{name} by {message.slot}" if isinstance(message, messages.FromSlot) else name


def _fields(what: object) -> str:
    if not is_dataclass(what):
        return ""
    shown = ((one.name, getattr(what, one.name)) for one in fields(what) if one.name not in _DULL)
    return " ".join(f"{name}={_value(value)}" for name, value in shown if value not in (None, "", ()))


def _value(value: object) -> str:
    match value:
        case Manifest():
            return str(value.ref)
        case ManifestRef():
            return str(value)
        case ev.Failure(code, message):
            return f"{code}({message[:100]})"
        case tuple():
            return f"[{len(value)}]"
        case bytes():
            return f"<{len(value)} bytes>"
        case _ if is_dataclass(value):
            return f"{type(value).__name__}({_fields(value)})"
        case _:
            return str(value)[:100]


def _splits(positions: tuple[SplitPosition, ...]) -> str:
    return "[" + " ".join(str(position.split.number) for position in positions) + "]"
