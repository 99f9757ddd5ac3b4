"""A subtask that reads channels: aligns barriers, combines watermarks, ends when all its inputs have ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import polars as pl

from tidegate.eventtime.combiner import WatermarkCombiner
from tidegate.model.elements import (
    NO_ORIGIN,
    WATERMARK_MIN_US,
    Barrier,
    Batch,
    CancelCheckpoint,
    EndOfData,
    Idle,
    SourceStatus,
    Watermark,
)
from tidegate.model.errors import Bug
from tidegate.model.ids import ChannelId, CheckpointId, OperatorId, SubtaskId
from tidegate.model.messages import OperatorMetrics
from tidegate.runtime.alignment import Aligned, Aligning, Alignment, Flowing, at_start, held, on_barrier, on_cancel
from tidegate.runtime.chain import Chain
from tidegate.runtime.credits import Credits
from tidegate.runtime.effects import Persist
from tidegate.runtime.in_flight import Restored
from tidegate.runtime.input_channel import InputChannel
from tidegate.runtime.outputs import Outputs
from tidegate.runtime.overtaking import Overtaking
from tidegate.runtime.snapshotting import Snapshots
from tidegate.runtime.stage_time import capture
from tidegate.runtime.subtask import Quantum, SlotScope, Work
from tidegate.runtime.waiting_rows import concatenate


class InputSubtask:
    """Reads its channels in turn; those in which the barrier stands are left alone until it stands in all of them."""

    def __init__(
        self,
        subtask: SubtaskId,
        state: OperatorId,
        scope: SlotScope,
        inputs: tuple[InputChannel, ...],
        credits: Credits,
        combiner: WatermarkCombiner,
        chain: Chain,
        outputs: Outputs,
        restored: Restored,
        ports: Mapping[int, int],
    ) -> None:
        """``ports``: the input of the stage that each edge is."""
        self.id = subtask
        self._state = state
        self._ports = ports
        self.chain = chain
        self.outputs = outputs
        self.snapshots = Snapshots(subtask, scope.attempt, chain, outputs, scope.clock)
        self._scope = scope
        self._inputs = inputs
        self._channels = frozenset(one.channel for one in inputs)
        self._credits = credits
        self._combiner = combiner
        self._work = Work(outputs, scope.config, scope.clock)
        self._alignment: Alignment = at_start(scope.config.checkpoint_mode)
        self._held: frozenset[ChannelId] = frozenset()
        self._restored = restored
        after_ms = scope.overtake_after_ms
        self._overtaking = Overtaking(inputs, after_ms) if after_ms != float("inf") else None
        self._flushing: tuple[Barrier, Aligned] | None = None
        """The cut is complete and waits for the rows that leave before its barrier."""
        self._next = 0
        self._ending = False
        self._ended = False
        self._idle_due: Idle | None = None
        self._told: SourceStatus | None = None
        """The last word to an assigner in this chain, whose rows know no split any more: whether they hold anything back."""
        # After a restore everyone behind hears again where event time stands: their channels start at an older value.
        self._announce_us = combiner.combined_us if combiner.combined_us > WATERMARK_MIN_US else None

    def cancel(self, checkpoint: CheckpointId) -> None:
        """Where results leave whole only the channels tell, at the place of the barrier that does not come: either all subtasks of
        a stage pass a barrier or none of them does, and no result is left half sent."""
        if not self._scope.whole_results:
            self._cancel(checkpoint)

    def _cancel(self, checkpoint: CheckpointId) -> None:
        self._align(on_cancel(self._alignment, checkpoint))
        self.outputs.forget(checkpoint)
        if self._overtaking is not None:
            self._overtaking.discard(checkpoint)

    def runnable(self, now_ms: float) -> bool:
        if self._work.suspended:
            return self._work.resumable
        due = (
            self._announce_us is not None or self._ending or self._idle_due is not None or self._status_due is not None
        )
        if self._flushing is not None or due:
            return True
        if self._restored:
            return not self.outputs.full
        if self._timer_due(now_ms):
            return True
        return self._readable(only_control=self.outputs.full) is not None

    def run(self, now_ms: float) -> None:
        quantum = Quantum(self._scope.clock)
        self.chain.tell_time(self._scope.wall_ms(now_ms))
        while True:
            if self._work.suspended and not (self._work.resumable and self._work.resume()):
                return
            if self._flushing is not None:
                self._take_cut(*self._flushing, now_ms)
            elif self._announce_us is not None:
                at_us, self._announce_us = self._announce_us, None
                self._work.begin(self.chain.feed(Watermark(at_us)))
            elif (status := self._status_due) is not None:
                self._tell(status)
            elif self._ending:
                self._finish()
            elif self._idle_due is not None:
                self._go_idle(self._idle_due)
            elif self._restored:
                # Before anything new, barriers included: an aligned cut has no rows in flight.
                if self.outputs.full:
                    return
                edge, rows = self._restored.take(self._work.rows_max)
                self._work.begin(self.chain.feed(Batch(rows, port=self._ports[edge])), rows.height)
            elif self._timer_due(now_ms):
                self._work.begin(self.chain.on_time(self._scope.wall_ms(now_ms)))
            elif (channel := self._readable(only_control=self.outputs.full)) is not None:
                self._process(channel, now_ms)
            else:
                return
            if not quantum.spend():
                return

    def _timer_due(self, now_ms: float) -> bool:
        return not self._ended and not self.outputs.full and self.chain.next_time_ms <= self._scope.wall_ms(now_ms)

    @property
    def next_timer_ms(self) -> float:
        return float("inf") if self._ended else self.chain.next_time_ms - self._scope.wall_offset_ms

    def _readable(self, *, only_control: bool = False) -> InputChannel | None:
        """The next channel with something to read, in turn. Without room for rows, only one whose next element makes none."""
        inputs, count = self._inputs, len(self._inputs)
        for step in range(count):
            index = (self._next + step) % count
            one = inputs[index]
            if len(one) and one.channel not in self._held and not (only_control and one.makes_rows):
                self._next = (index + 1) % count
                return one
        return None

    def _process(self, one: InputChannel, now_ms: float) -> None:
        channel = one.channel
        taken = one.take(self._work.rows_max)
        if taken.batches:
            self._credits.consumed(channel, taken.batches, taken.size_bytes)
        match taken.element:
            case Batch() as batch:
                self._wake(channel)
                rows = self._joined(one, batch.rows)
                self._work.begin(self.chain.feed(Batch(rows, port=self._ports[channel.edge])), rows.height)
            case Watermark(at_us=at_us):
                self._wake(channel)
                self._advance(self._combiner.on_watermark(channel, at_us))
            case Idle() as how:
                self._advance(self._combiner.on_idle(channel, how))
                self._idle_due = self._combiner.idle
            case EndOfData():
                self._advance(self._combiner.on_end(channel))
                self._ending = self._combiner.ended
                self._idle_due = self._combiner.idle
            case Barrier() as barrier:
                self._on_barrier(channel, barrier, now_ms)
            case CancelCheckpoint(checkpoint=checkpoint):
                if checkpoint not in self._alignment.over:
                    self._cancel(checkpoint)
                    self.outputs.broadcast(taken.element)
            case SourceStatus():
                raise Bug(f"a source status left its chain through channel {channel}")

    def _joined(self, first: InputChannel, rows: pl.DataFrame) -> pl.DataFrame:
        """With the rows that stand ready in other channels: of a light stream over many channels each brings a few, and a call
        costs as much for them as for thousands. Order counts within a channel only."""
        frames, left = [rows], self._work.rows_max - rows.height
        for one in self._inputs:
            if not 0 < one.ready_rows <= left or one is first or one.channel in self._held:
                continue
            if one.channel.edge != first.channel.edge:
                continue
            taken = one.take(left)
            assert isinstance(taken.element, Batch)
            self._credits.consumed(one.channel, taken.batches, taken.size_bytes)
            self._wake(one.channel)
            frames.append(taken.element.rows)
            left -= taken.element.rows.height
        return concatenate(frames)

    def _wake(self, channel: ChannelId) -> None:
        if self._combiner.is_idle(channel):
            self._combiner.on_active(channel)
            self.outputs.wake()
            if (status := self._status_due) is not None:
                # Before the rows that end the rest, or they would tell the time. It releases nothing.
                self._tell(status)

    def _tell(self, status: SourceStatus) -> None:
        self._told = status
        self._work.begin(self.chain.feed(status))

    def _advance(self, combined_us: int | None) -> None:
        if combined_us is not None:
            self._work.begin(self.chain.feed(Watermark(combined_us)))

    def _go_idle(self, how: Idle) -> None:
        """Comes after the rows and the watermark that the idleness of one input released: they would end it again."""
        self._idle_due = None
        self.outputs.go_idle(how)

    @property
    def _status_due(self) -> SourceStatus | None:
        """Rows have come from anywhere and know no split: they tell the time only while nothing else is to be read."""
        if self.chain.assigner is None or self._ended:
            return None
        status = SourceStatus(frozenset({NO_ORIGIN}), holding=not self._combiner.rests)
        return None if status == self._told else status

    def _finish(self) -> None:
        if not self._ended:
            self._ended = True
            self._work.begin(self.chain.end())
            return
        self._ending = False
        self.outputs.broadcast(EndOfData())

    def _on_barrier(self, channel: ChannelId, barrier: Barrier, now_ms: float) -> None:
        following = on_barrier(self._channels, self._alignment, channel, barrier, now_ms)
        if not isinstance(following, Aligned):
            self._align(following)
            return
        if self._scope.whole_results and self.chain.flushes:
            self._flushing = barrier, following
            self._held = self._channels
            self._work.begin(self.chain.flush(barrier.checkpoint))
        else:
            self._take_cut(barrier, following, now_ms)

    def _take_cut(self, barrier: Barrier, following: Aligned, now_ms: float) -> None:
        self._flushing = None
        self._scope.effects.append(self._cut(replace(barrier, unaligned=False), following.since_ms, now_ms))
        self._align(following.after)
        if self._overtaking is not None:
            self._overtaking.prune(self._alignment)

    def _cut(self, barrier: Barrier, aligning_since_ms: float, now_ms: float) -> Persist:
        overtaking = self._overtaking
        return self.snapshots.take(
            barrier,
            ((self._state, capture(self._combiner, self._scope.parallelism)),),
            since_ms=overtaking.since_ms(barrier.checkpoint, now_ms) if overtaking is not None else now_ms,
            start_delay_ms=self._scope.start_delay_ms(barrier.checkpoint, aligning_since_ms),
            alignment_ms=max(0.0, now_ms - aligning_since_ms),
        )

    def overtake(self, now_ms: float) -> None:
        overtaking = self._overtaking
        if overtaking is None:
            return
        while (barrier := overtaking.due(self._alignment, now_ms)) is not None:
            self._take_overtaking(overtaking, barrier, now_ms)
        self._scope.effects.extend(overtaking.finished)
        overtaking.finished.clear()
        self.outputs.overtake(now_ms)

    def _take_overtaking(self, overtaking: Overtaking, barrier: Barrier, now_ms: float) -> None:
        """The barrier is taken in all channels at once, with the rows before it. What is being processed is brought to its end first."""
        self._work.finish()
        now = self._alignment
        aligning = now if isinstance(now, Aligning) and now.barrier.checkpoint == barrier.checkpoint else None
        left = overtaking.left_behind(barrier.checkpoint, aligning.arrived if aligning is not None else frozenset())
        if left is None:
            return
        persist = self._cut(
            replace(barrier, unaligned=True), aligning.since_ms if aligning is not None else now_ms, now_ms
        )
        overtaking.record(replace(persist, in_flight=tuple(self._restored.overtaken)), *left)
        self._align(Flowing(now.over.with_passed(barrier.checkpoint)))

    @property
    def next_overtake_ms(self) -> float:
        if self._overtaking is None:
            return float("inf")
        return min(self._overtaking.next_due_ms, self.outputs.next_overtake_ms)

    def _align(self, following: Alignment) -> None:
        self._alignment = following
        self._held = held(following)

    def metrics(self) -> tuple[OperatorMetrics, ...]:
        return self.chain.metrics(self.id.stage, sum(one.batches for one in self._inputs))
