"""Control messages between the driver and the slots. Delivery is at-least-once, unordered and may be late:
each one names the attempt, and whoever receives it again ignores it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from tidegate.model.elements import WATERMARK_MIN_US, CheckpointKind
from tidegate.model.holding import Holder
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex, SubtaskId
from tidegate.model.snapshot import FinishedSplit, OperatorSnapshot, PhaseTimes, SplitPosition


class ToSlot(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    attempt: Attempt


class StartSubtasks(ToSlot, frozen=True, tag="start"):
    """All slots have registered: connect to each other, restore, report SlotReady, run."""

    addresses: tuple[str, ...]
    """Data endpoint of every slot, by slot index."""
    restored: tuple[OperatorSnapshot, ...] = ()
    """All snapshots of the checkpoint restored from, of all subtasks: each operator picks its part."""
    checkpoint: CheckpointId | None = None


class TriggerCheckpoint(ToSlot, frozen=True, tag="trigger"):
    checkpoint: CheckpointId
    kind: CheckpointKind


class CheckpointCompleted(ToSlot, frozen=True, tag="completed"):
    """The manifest exists and passed its look. Advisory: may be lost, repeated or late."""

    checkpoint: CheckpointId


class CheckpointCommitted(ToSlot, frozen=True, tag="committed"):
    """Committables up to and including this checkpoint are visible: sinks may forget them. Advisory."""

    checkpoint: CheckpointId


class CheckpointAborted(ToSlot, frozen=True, tag="aborted"):
    checkpoint: CheckpointId


class AssignSplits(ToSlot, frozen=True, tag="assign"):
    operator: OperatorId
    subtask: SlotIndex
    sequence: int
    """Dense per (operator, subtask): a repeated assignment is recognised."""
    splits: tuple[SplitPosition, ...] = ()
    unassigned: bool = False
    """Splits known to the enumerator and given to nobody yet exist: hold the watermark in bounded runs."""
    no_more: bool = False
    """Bounded run: when these are read, this subtask has read everything."""
    heard: int = 0
    """Messages of this reader with smaller numbers have been taken in, or a later one that says the same."""
    answers: bool = True
    """To the reader's question. Otherwise only event time is told, and the question stands."""
    ordered: bool = False
    """The splits are logs: order inside one counts."""
    unread: bool = False
    """Some split is known and not read to its end, by this reader or another."""
    rest: int = 0
    """How often everything has been read whose time is told behind an exchange."""
    watermark_us: int = WATERMARK_MIN_US
    """The newest grant: no row that may not be late is before it and not in a channel yet."""


class DrainSources(ToSlot, frozen=True, tag="drain"):
    """The query is to end for good: sources read nothing more, emit a final watermark and their EndOfData."""


class EndAttempt(ToSlot, frozen=True, tag="end"):
    """Leave now. ``clean``: the job is finished; otherwise the attempt failed, is stopped or fenced."""

    clean: bool
    reason: str = ""


class ReportProgress(ToSlot, frozen=True, tag="report"):
    """Send a SlotProgress now, beside the regular ones."""

    number: int
    """Stands in the answer."""
    poll: bool = False
    """No source counts as idle until it has been polled once more."""


class DriverAlive(ToSlot, frozen=True, tag="alive"):
    """Heartbeat of the driver."""


class FromSlot(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    attempt: Attempt
    slot: SlotIndex


class SlotRegistered(FromSlot, frozen=True, tag="registered"):
    address: str
    pid: int
    host: str
    versions: dict[str, str]
    """python, tidegate, polars, pyarrow: compared with the driver's."""


class SlotReady(FromSlot, frozen=True, tag="ready"):
    """State is restored, channels are connected: the coordinator may trigger."""


class SubtaskAcked(FromSlot, frozen=True, tag="ack"):
    """The subtask's snapshot is stored, every phase of it."""

    subtask: SubtaskId
    checkpoint: CheckpointId
    snapshots: tuple[OperatorSnapshot, ...]
    times: PhaseTimes


class SubtaskDeclined(FromSlot, frozen=True, tag="declined"):
    subtask: SubtaskId
    checkpoint: CheckpointId
    reason: str
    counts: bool = False
    """The snapshot was taken and could not be stored: a sign of trouble. False: the subtask was not ready for one."""
    chunks: tuple[str, ...] = ()
    """Names under which parts of the snapshot stand in the store, or may stand there."""


class SplitsWanted(FromSlot, frozen=True, tag="splits-wanted"):
    """The reader is about to run dry: assign more. Repeated until answered."""

    operator: OperatorId
    open: int
    finished: tuple[FinishedSplit, ...] = ()
    received: int = 0
    """How many assignments have been taken in, without a gap: later ones that were sent before this are sent again."""
    number: int = 0
    """Dense per reader: what the assigner has heard is known by it."""
    asks: bool = True
    """False: nothing is wanted, this only says what has been received."""


class SourceExhausted(FromSlot, frozen=True, tag="exhausted"):
    """Bounded run: this source subtask has emitted its EndOfData. Repeated until the attempt ends."""

    operator: OperatorId


class OperatorMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of one operator in one subtask since the attempt began; late rows since its state did."""

    operator: str
    """Stage and operator as explain() prints them, e.g. ``1 aggregate-0``."""
    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    """Rows dropped because the watermark had passed them."""
    late_rows_restored: int = 0
    """Of them, those counted before this attempt."""
    rejected_rows: int = 0
    """Rows its user function raised for, given to the dead-letter sink."""
    state_rows: int = 0
    state_bytes: int = 0
    watermark_us: int | None = None
    busy_ms: float = 0.0
    backlog: int = 0
    """Sources: splits open or queued here; others: batches waiting in the input channels."""


class SourceTime(FromSlot, frozen=True, tag="source-time"):
    """Where event time stands at a reader of log splits. Sent now and then while it changes, where other sources depend on it."""

    operator: OperatorId
    watermark_us: int
    idle: bool


class SlotProgress(FromSlot, frozen=True, tag="progress"):
    metrics: tuple[OperatorMetrics, ...] = ()
    positions: dict[str, str] = {}
    """Human-readable source positions, by operator."""
    idle_sources: tuple[OperatorId, ...] = ()
    """Sources that have emitted everything they were assigned (processAllAvailable waits for this)."""
    answers: int = 0
    """The newest ReportProgress this slot has seen; everything sent to it before that has been taken in."""
    holders: tuple[Holder, ...] = ()
    """What of its logs holds event time back."""


class SlotFailed(FromSlot, frozen=True, tag="failed"):
    code: str
    message: str
    hint: str = ""
    operator: str = ""
    position: str = ""
    """Where in the input the failing row stands; the same error twice at the same position is terminal."""


class SlotLeft(FromSlot, frozen=True, tag="left"):
    """The slot has closed its threads and sockets after EndAttempt."""


class SlotAlive(FromSlot, frozen=True, tag="slot-alive"):
    """Heartbeat of the slot, sent by a thread of its own."""

    doing: str = ""
    """Stage and operator inside whose call the loop is, e.g. ``2 sink-0``; empty: in none."""
    doing_ms: int = 0
    """For how long."""


SlotMessage: TypeAlias = (
    StartSubtasks
    | TriggerCheckpoint
    | CheckpointCompleted
    | CheckpointCommitted
    | CheckpointAborted
    | AssignSplits
    | DrainSources
    | EndAttempt
    | ReportProgress
    | DriverAlive
)
DriverMessage: TypeAlias = (
    SlotRegistered
    | SlotReady
    | SubtaskAcked
    | SubtaskDeclined
    | SplitsWanted
    | SourceExhausted
    | SourceTime
    | SlotProgress
    | SlotFailed
    | SlotLeft
    | SlotAlive
)
