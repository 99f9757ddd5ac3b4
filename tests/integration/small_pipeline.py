"""A pipeline without Spark: the real coordinator, recovery and storage on real files, around one slot that counts to infinity.

Every checkpoint finds the slot one row further. The row is output, the count is keyed state in a stored chunk. So the truth is easy:
what is visible must be 1, 2, 3 … without a gap and without a repetition, whatever happened to the location.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import polars as pl

from tidegate.api.location import check_store, newest_claim, open_pipeline
from tidegate.checkpoint import effects as fx
from tidegate.checkpoint import events as ev
from tidegate.checkpoint.layout import chunk_key, chunk_name
from tidegate.checkpoint.lifecycle import step
from tidegate.checkpoint.manifest import PipelineDocument
from tidegate.checkpoint.phases import New, State
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.statistics import CheckpointReport, Outcome
from tidegate.checkpoint.storing import StorageEffect, failure_of, perform
from tidegate.model.config import QueryConfig
from tidegate.model.errors import TidegateError
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, PipelineId, SlotIndex, StageId, SubtaskId
from tidegate.model.messages import CheckpointCommitted, SubtaskAcked, SubtaskDeclined, TriggerCheckpoint
from tidegate.model.snapshot import ChunkHandle, Committable, KeyGroupRange, OperatorSnapshot, PhaseTimes
from tidegate.ports.store import BlobStore
from tidegate.spark.gang import TERMINAL
from tidegate.spark.read_ahead import read_chunk
from tidegate.state.codec import encode_chunk

COUNT, SINK = OperatorId("count"), OperatorId("sink")
SUBTASK = SubtaskId(StageId(0), SlotIndex(0))
CONFIG = QueryConfig(max_parallelism=8, checkpoints_retained=2, restart_delay_max_ms=1_000, restart_attempts_max=8)
SECOND_MS = 1_000


class Visible:
    """What readers of the output see. Survives everything; committing something twice shows it once."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self._known: set[tuple[str, Committable]] = set()

    def commit(self, pipeline: str, committables: fx.CommittablesBySink) -> None:
        for _, ones in committables:
            for one in ones:
                if (pipeline, one) not in self._known:
                    self._known.add((pipeline, one))
                    self.rows.append(int(one.payload.split()[0]))

    def assert_whole(self, at_least: int) -> None:
        assert self.rows == list(range(1, len(self.rows) + 1)), "a row is missing, repeated or out of order"
        assert len(self.rows) >= at_least, f"only {len(self.rows)} rows are visible"


class CountingSlot:
    """One operator with state, one sink. Keeps what it prepared until it hears that it is visible."""

    def __init__(self, store: BlobStore, attempt: Attempt, restored: tuple[OperatorSnapshot, ...]) -> None:
        self._store = store
        self._attempt = attempt
        self._prepared: list[Committable] = []
        self.count = 0
        for entry in restored:
            self._prepared += entry.committables
            for handle in entry.chunks:
                self.count = read_chunk(store, handle)["n"].item()

    def snapshot(self, checkpoint: CheckpointId) -> SubtaskAcked | SubtaskDeclined:
        self.count += 1
        payload = f"{self.count} of attempt {self._attempt}".encode()
        self._prepared.append(Committable(checkpoint=checkpoint, subtask=SlotIndex(0), number=0, payload=payload))
        # Large enough to fill a small disk after a few checkpoints.
        data = encode_chunk(pl.DataFrame({"kg": [0], "n": [self.count], "pad": [b"x" * 4_000]}))
        name = chunk_name(COUNT, self._attempt, SlotIndex(0), checkpoint, 0)
        try:
            self._store.create(chunk_key(name), data)
        except TidegateError as error:
            return SubtaskDeclined(
                attempt=self._attempt,
                slot=SlotIndex(0),
                subtask=SUBTASK,
                checkpoint=checkpoint,
                reason=str(error),
                counts=True,
            )
        chunk = ChunkHandle(
            name=name, groups=KeyGroupRange(0, 8), rows=1, size_bytes=len(data), checksum=zlib.crc32(data)
        )
        return SubtaskAcked(
            attempt=self._attempt,
            slot=SlotIndex(0),
            subtask=SUBTASK,
            checkpoint=checkpoint,
            snapshots=(
                OperatorSnapshot(operator=COUNT, subtask=SlotIndex(0), chunks=(chunk,)),
                OperatorSnapshot(operator=SINK, subtask=SlotIndex(0), committables=tuple(self._prepared)),
            ),
            times=PhaseTimes(),
        )

    def committed(self, checkpoint: CheckpointId) -> None:
        self._prepared = [one for one in self._prepared if one.checkpoint > checkpoint]


class SmallPipeline:
    """One driver process. ``start`` raises what ``start()`` of a query would; ``outcome`` is how it ended."""

    def __init__(
        self, open_location: Callable[[], BlobStore], visible: Visible, *, config: QueryConfig = CONFIG
    ) -> None:
        self._open = open_location
        self._visible = visible
        self._config = config
        self._state: State = New()
        self._slot: CountingSlot | None = None
        self.now_ms = 0
        self.reports: list[CheckpointReport] = []
        self.restored: list[CheckpointId | None] = []
        self.outcome: fx.Outcome | None = None

    def start(self, *, process: str = "me", pipeline: str = "p", accept_duplicates: bool = False) -> SmallPipeline:
        self._store = self._open()
        check_store(self._store, "the location")
        new = PipelineDocument(pipeline=PipelineId(pipeline), max_parallelism=self._config.max_parallelism)
        self._plan = self._plan_for(open_pipeline(self._store, "the location", new, self._plan_for).pipeline)
        self._feed(ev.Started(self.now_ms, process, newest_claim(self._store), accept_duplicates))
        return self

    def _plan_for(self, pipeline: PipelineId) -> CheckpointPlan:
        return CheckpointPlan(
            pipeline=pipeline,
            parallelism=1,
            subtasks=(SUBTASK,),
            sources=(),
            stateful=(COUNT, SINK),
            sinks=(SINK,),
            config=self._config,
        )

    def run_s(self, seconds: int) -> SmallPipeline:
        """Time goes by in steps of 100 ms, or until it ends."""
        for _ in range(seconds * 10):
            if self.outcome is None:
                self.now_ms += 100
                self._feed(ev.ClockTicked(self.now_ms))
        return self

    def kill(self) -> None:
        """Like kill -9 of the driver: nothing more happens."""
        self.outcome = fx.Stopped()

    @property
    def failed(self) -> ev.Failure:
        assert isinstance(self.outcome, fx.Failed), f"it has not failed: {self.outcome}"
        return self.outcome.failure

    def completed(self) -> int:
        return sum(report.outcome is Outcome.COMPLETED for report in self.reports)

    def failures(self) -> list[str]:
        """Every failed checkpoint in words."""
        return [str(report) for report in self.reports if report.outcome is Outcome.FAILED]

    def _feed(self, event: ev.Event) -> None:
        if self.outcome is not None:
            return
        self._state, effects = step(self._plan, self._state, event)
        for effect in effects:
            answer = self._perform(effect)
            if answer is not None:
                self._feed(answer)

    def _perform(self, effect: fx.Effect) -> ev.Event | None:
        match effect:
            case _ if isinstance(effect, StorageEffect):
                return perform(self._plan, effect, self._store, lambda: self.now_ms)
            case fx.CommitSinks(attempt, checkpoint, committables):
                self._visible.commit(self._plan.pipeline, committables)
                return ev.SinksCommitted(self.now_ms, attempt, checkpoint)
            case fx.SweepSinks(attempt):
                return ev.SinksSwept(self.now_ms, attempt)
            case fx.Deploy(attempt, manifest):
                return self._deploy(attempt, manifest)
            case fx.SendToSlots(TriggerCheckpoint(checkpoint=checkpoint)) if self._slot is not None:
                return ev.SlotSaid(self.now_ms, self._slot.snapshot(checkpoint))
            case fx.SendToSlots(CheckpointCommitted(checkpoint=checkpoint)) if self._slot is not None:
                self._slot.committed(checkpoint)
            case fx.EndAttempt(attempt):
                self._slot = None
                return ev.SlotsFree(self.now_ms, attempt)
            case fx.ReportCheckpoint(report):
                self.reports.append(report)
            case fx.Finish(outcome):
                self.outcome = outcome
            case _:
                pass
        return None

    def _deploy(self, attempt: Attempt, manifest: fx.Manifest | None) -> ev.Event:
        self.restored.append(manifest.checkpoint if manifest is not None else None)
        try:
            # As a slot does: it opens the location and reads its chunks itself.
            self._slot = CountingSlot(self._open(), attempt, manifest.operators if manifest is not None else ())
        except TidegateError as error:
            failure = failure_of(error)
            return ev.AttemptFailed(
                self.now_ms,
                attempt,
                ev.Failure(failure.code, failure.message, failure.hint, retryable=failure.code not in TERMINAL),
            )
        return ev.SlotsReady(self.now_ms, attempt)


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
