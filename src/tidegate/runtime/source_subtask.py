"""A subtask that starts with a Scan: reads when there is room, answers triggers at batch boundaries."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from tidegate.model.elements import (
    Active,
    Barrier,
    Batch,
    CancelCheckpoint,
    CheckpointKind,
    EndOfData,
    Idle,
    SourceStatus,
    Watermark,
)
from tidegate.model.ids import CheckpointId, SubtaskId
from tidegate.model.messages import AssignSplits, OperatorMetrics, SourceExhausted, SourceTime, SplitsWanted
from tidegate.operators.source import FromSource, SourceOperator
from tidegate.runtime.chain import Chain
from tidegate.runtime.effects import Tell
from tidegate.runtime.failures import located
from tidegate.runtime.outputs import Outputs
from tidegate.runtime.overtaking import may_overtake
from tidegate.runtime.snapshotting import Snapshots, decline
from tidegate.runtime.subtask import Quantum, SlotScope, Work
from tidegate.runtime.time_reports import TimeReports
from tidegate.runtime.triggers import Triggers

EXHAUSTED_AGAIN_MS = 1_000.0


class SourceSubtask:
    """After its end of data it stays: it still answers triggers, so every subtask takes part in every checkpoint."""

    def __init__(
        self, subtask: SubtaskId, scope: SlotScope, source: SourceOperator, chain: Chain, outputs: Outputs
    ) -> None:
        self.id = subtask
        self.source = source
        self.chain = chain
        self.outputs = outputs
        self.snapshots = Snapshots(subtask, scope.attempt, chain, outputs, scope.clock)
        self._scope = scope
        self._work = Work(outputs, scope.config, scope.clock)
        self._polled: deque[FromSource] = deque()
        """Read and not yet begun: part of the position already, so it comes before any barrier."""
        self._triggers = Triggers()
        self._ended = False
        self._say_exhausted_ms = 0.0
        self._reports: TimeReports | None = TimeReports() if scope.sources_meet else None
        source.take_place(chain.assigner, meets_others=scope.sources_meet, is_far=source.id in scope.far_sources)

    def assign(self, message: AssignSplits, now_ms: float) -> None:
        if self.source.assign(message, now_ms):
            # Not only with the first row: those behind may not go on without this reader from now on, room or not.
            self.outputs.wake()

    def trigger(self, checkpoint: CheckpointId, kind: CheckpointKind, now_ms: float) -> None:
        """Several may wait; each is taken once, in order. One that a newer has overtaken is declined, repeated ones change nothing."""
        if not self._triggers.add(Barrier(checkpoint, kind), now_ms):
            reason = "a newer checkpoint has passed this source"
            self._scope.effects.append(decline(self._scope.attempt, self.id, checkpoint, reason))

    def cancel(self, checkpoint: CheckpointId) -> None:
        self.outputs.forget(checkpoint)
        out = self._triggers.cancel(checkpoint)
        # A whole result may be under way before a barrier that is out: it passes. One that is not out never will be.
        if out != self._scope.whole_results:
            self.outputs.broadcast(CancelCheckpoint(checkpoint))

    def settle(self, checkpoint: CheckpointId) -> None:
        self._triggers.settle(checkpoint)

    def runnable(self, now_ms: float) -> bool:
        if self._work.suspended:
            return self._work.resumable
        if self._polled or self._triggers.next is not None:
            return True
        return self.source.ready(now_ms) and not self.outputs.full

    def run(self, now_ms: float) -> None:
        quantum = Quantum(self._scope.clock)
        self.chain.tell_time(self._scope.wall_ms(now_ms))
        while True:
            if self._work.suspended and not (self._work.resumable and self._work.resume()):
                return
            if self._polled:
                if not self._begin(self._polled.popleft()):
                    return
            elif self._triggers.next is not None:
                self._take(now_ms)
            elif self.source.ready(now_ms) and not self.outputs.full:
                self._polled.extend(self._poll(now_ms))
                if not self._polled:
                    return
                continue
            else:
                return
            if not quantum.spend():
                return

    def _poll(self, now_ms: float) -> tuple[FromSource, ...]:
        link = self.chain.links[0]
        clock = self._scope.clock
        began_ms = link.inside_since_ms = clock() if clock is not None else 0.0
        try:
            polled = self.source.poll(self._work.rows_max, now_ms)
        except Exception as error:
            raise located(error, link.node, link.label, self.source.describe()) from error
        link.inside_since_ms = None
        if clock is not None:
            link.busy_ms += clock() - began_ms
        return polled

    def _begin(self, element: FromSource) -> bool:
        """Feeds one element to the chain behind the source. False: suspended."""
        match element:
            case Batch(rows=rows):
                self.chain.links[0].rows_out += rows.height
                self.outputs.wake()
                return self._work.begin(self.chain.feed(element, start=1), rows.height)
            case Watermark() | SourceStatus():
                return self._work.begin(self.chain.feed(element, start=1))
            case Idle():
                self.outputs.go_idle(element)
                return True
            case Active():
                self.outputs.wake()
                return True
            case EndOfData():
                if not self._ended:
                    self._ended = True
                    # What operators keep back until the end leaves first; EndOfData comes round again behind it.
                    self._polled.appendleft(element)
                    return self._work.begin(self.chain.end(start=1))
                self.outputs.broadcast(element)
                return True

    def _take(self, now_ms: float, *, unaligned: bool = False) -> None:
        trigger = self._triggers.take()
        barrier = replace(trigger.barrier, unaligned=unaligned)
        delay_ms = self._scope.start_delay_ms(barrier.checkpoint, now_ms)
        self._scope.effects.append(
            self.snapshots.take(barrier, (), since_ms=trigger.since_ms, start_delay_ms=delay_ms, alignment_ms=0.0)
        )

    def take_if_triggered(self, now_ms: float) -> None:
        """A barrier that can start now does not wait for this subtask's turn."""
        while self._triggers.next is not None and not self._work.suspended and not self._polled:
            self._take(now_ms)

    def overtake(self, now_ms: float) -> None:
        """What was read leaves although there is no room for it, then the barrier. Then the barriers that wait for credit."""
        while self._next_trigger_ms <= now_ms:
            self._work.finish()
            while self._polled:
                self._begin(self._polled.popleft())
                self._work.finish()
            self._take(now_ms, unaligned=True)
        self.outputs.overtake(now_ms)

    @property
    def next_overtake_ms(self) -> float:
        return min(self._next_trigger_ms, self.outputs.next_overtake_ms)

    @property
    def _next_trigger_ms(self) -> float:
        """When the trigger that waits for rows to leave may not wait any longer."""
        trigger = self._triggers.next
        if trigger is None or not may_overtake(trigger.barrier):
            return float("inf")
        return trigger.since_ms + self._scope.overtake_after_ms

    def tell(self, now_ms: float) -> None:
        """Messages to the driver that are due: more splits wanted, everything emitted."""
        scope = self._scope
        if (request := self.source.ask(now_ms)) is not None:
            message = SplitsWanted(
                attempt=scope.attempt,
                slot=scope.slot,
                operator=self.source.id,
                open=request.open,
                finished=request.finished,
                received=request.received,
                number=request.number,
                asks=request.asks,
            )
            scope.effects.append(Tell(message))
        if self._reports is not None and (time := self._reports.due(self._time, now_ms)) is not None:
            watermark_us, idle = time
            scope.effects.append(
                Tell(
                    SourceTime(
                        attempt=scope.attempt,
                        slot=scope.slot,
                        operator=self.source.id,
                        watermark_us=watermark_us,
                        idle=idle,
                    )
                )
            )
        if self._exhausted and now_ms >= self._say_exhausted_ms:
            self._say_exhausted_ms = now_ms + EXHAUSTED_AGAIN_MS
            scope.effects.append(Tell(SourceExhausted(attempt=scope.attempt, slot=scope.slot, operator=self.source.id)))

    @property
    def _time(self) -> tuple[int, bool] | None:
        """Where event time stands at this reader of logs, and whether it has nothing to tell it by."""
        quiet = self.source.is_quiet_log
        return None if quiet is None or self.chain.assigner is None else (self.chain.assigner.emitted_us, quiet)

    @property
    def _exhausted(self) -> bool:
        """EndOfData is out, not only read."""
        return self._ended and not self._polled and not self._work.suspended

    @property
    def next_wakeup_ms(self) -> float:
        """Timers only. A source that waits for room is woken by credit, and must not be asked again and again till then."""
        blocked = self._work.suspended or self.outputs.full
        return min(
            self.source.next_ask_ms,
            float("inf") if blocked else self.source.next_poll_ms,
            self._say_exhausted_ms if self._exhausted else float("inf"),
            self._reports.next_ms if self._reports is not None else float("inf"),
        )

    @property
    def drained(self) -> bool:
        return self.source.drained and not self._polled and not self._work.suspended

    @property
    def next_timer_ms(self) -> float:
        return float("inf")  # Timers belong to keys, and keys to stages behind an exchange.

    def metrics(self) -> tuple[OperatorMetrics, ...]:
        return self.chain.metrics(self.id.stage, self.source.open_splits)
