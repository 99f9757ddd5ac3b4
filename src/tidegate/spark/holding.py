"""Who holds event time back, and since when: what the coordinator and the slots say of it, with the driver's clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from tidegate.checkpoint.holding import held_by
from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.sources import SplitAssigner
from tidegate.model.config import WatermarkPolicy
from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.holding import Holder, HoldReason, combined
from tidegate.model.ids import OperatorId, SlotIndex
from tidegate.model.messages import SlotProgress
from tidegate.plan.explain import label
from tidegate.plan.graph import JobGraph
from tidegate.plan.relational import AssignWatermark, Scan
from tidegate.spark.discovery import FailingLooks

LOOK_EVERY_MS = 200


@dataclass(frozen=True, slots=True)
class Hold:
    holder: Holder
    since_ms: int
    """By the monotonic clock. A wait in which something gets done is a new one."""


class HoldWatch:
    """Belongs to the job master's loop."""

    def __init__(self, graph: JobGraph, plan: CheckpointPlan) -> None:
        self._plan = plan
        self._clocks = dict(_clocks(graph))
        self._holds: tuple[Hold, ...] = ()
        self._looked_ms: int | None = None

    def due(self, now_ms: int) -> bool:
        return self._looked_ms is None or now_ms >= self._looked_ms + LOOK_EVERY_MS

    def look(
        self,
        sources: tuple[SplitAssigner, ...],
        slots: Mapping[SlotIndex, SlotProgress],
        failing: Mapping[OperatorId, FailingLooks],
        now_ms: int,
    ) -> tuple[Hold, ...]:
        """What holds now, most holding first. Without sources: no attempt runs."""
        self._looked_ms = now_ms
        found = combined(self._found(sources, slots, failing, now_ms)) if self._plan.event_time else ()
        before = {(one.holder.source, one.holder.reason): one for one in self._holds}
        self._holds = tuple(_since(before.get((one.source, one.reason)), one, now_ms) for one in found)
        return self._holds

    def _found(
        self,
        sources: tuple[SplitAssigner, ...],
        slots: Mapping[SlotIndex, SlotProgress],
        failing: Mapping[OperatorId, FailingLooks],
        now_ms: int,
    ) -> Iterator[Holder]:
        held = [one for one in held_by(self._plan, sources) if one.source not in failing]
        for one in held:
            where = (slot.positions.get(one.source) for slot in slots.values())
            yield msgspec.structs.replace(one, example=next((text for text in where if text), one.example))
        for source in sources:
            if (looks := failing.get(source.operator)) is not None:
                lasted_ms = max(1, now_ms - looks.since_ms)
                yield Holder(
                    source=source.operator,
                    reason=HoldReason.LOOK,
                    count=0,
                    example=looks.message,
                    at_us=source.granted_us,
                    lasted_ms=lasted_ms,
                )
        of_slots = [one for slot in slots.values() for one in slot.holders]
        yield from of_slots
        yield from self._quiet_streams(sources, slots, {one.source for one in (*held, *of_slots)} | set(failing))

    def _quiet_streams(
        self, sources: tuple[SplitAssigner, ...], slots: Mapping[SlotIndex, SlotProgress], busy: set[OperatorId]
    ) -> Iterator[Holder]:
        """Streams that have nothing to bring and stand behind others."""
        config = self._plan.config
        if config.bounded or config.watermark_policy is not WatermarkPolicy.MIN:
            return
        streams: dict[OperatorId, list[tuple[OperatorId, int]]] = {}
        for source in sources:
            stream = self._plan.stream_of(source.operator)
            if stream is not None:
                streams.setdefault(stream, []).append((source.operator, self._stands_at_us(source, slots)))
        stands = {stream: min(at_us for _, at_us in members) for stream, members in streams.items()}
        first_us = max(stands.values(), default=WATERMARK_MIN_US)
        for stream, members in streams.items():
            if stands[stream] < first_us and not any(operator in busy for operator, _ in members):
                operator, at_us = min(members, key=lambda one: one[1])
                yield Holder(source=operator, reason=HoldReason.STREAM, count=0, at_us=at_us)

    def _stands_at_us(self, source: SplitAssigner, slots: Mapping[SlotIndex, SlotProgress]) -> int:
        if not source.ordered:
            return source.granted_us
        name = self._clocks.get(source.operator)
        marks = [one.watermark_us for slot in slots.values() for one in slot.metrics if one.operator == name]
        known = [mark for mark in marks if mark is not None]
        return min(known, default=WATERMARK_MIN_US)


def trouble(holds: Iterable[Hold], patience_ms: int, now_ms: int) -> Hold | None:
    """The oldest wait for something outside that does not answer, once it is too long."""
    late = [one for one in holds if one.holder.reason.is_trouble and now_ms - one.since_ms > patience_ms]
    return min(late, key=lambda one: one.since_ms, default=None)


def in_words(holder: Holder) -> str:
    """What follows "event time is held back by"."""
    return f"{holder.source}: {_why(holder)}"


def named(holder: Holder, description: str) -> dict[str, object]:
    """As ``lastProgress`` has it, without the time. ``description``: of the source, as a person knows it."""
    return {
        "source": description,
        "reason": holder.reason.value,
        "count": holder.count,
        "example": holder.example,
    }


def _clocks(graph: JobGraph) -> Iterator[tuple[OperatorId, str]]:
    """Of each source the operator that tells its time, as its counters name it."""
    for stage in graph.stages:
        scan = stage.nodes[0]
        for node in stage.nodes if isinstance(scan, Scan) else ():
            if isinstance(node, AssignWatermark) and isinstance(scan, Scan):
                yield scan.id, f"{stage.id} {label(node)}"


def _since(before: Hold | None, now: Holder, now_ms: int) -> Hold:
    if now.lasted_ms:
        return Hold(now, now_ms - now.lasted_ms)
    if before is None or before.holder.stand != now.stand:
        return Hold(now, now_ms)
    return replace(before, holder=now)


def _why(holder: Holder) -> str:
    one = holder.count == 1
    splits = "1 split" if one else f"{holder.count} splits"
    if holder.example:
        splits += f" ({holder.example})" if one else f", such as {holder.example},"
    match holder.reason:
        case HoldReason.UNREAD:
            return f"{splits} {'is' if one else 'are'} known and not read to the end"
        case HoldReason.LOOK if holder.example:
            return f"it cannot be looked into: {holder.example}"
        case HoldReason.LOOK:
            return "what was read counts once a look at it has found nothing more"
        case HoldReason.BEHIND:
            return f"what was read counts once {splits} found meanwhile {'is' if one else 'are'} read as well"
        case HoldReason.PARTITION:
            return f"{splits} {'has' if one else 'have'} the earliest rows"
        case HoldReason.UNANSWERED:
            return f"{splits} cannot be read: the source does not answer"
        case HoldReason.STREAM:
            return "it brings no rows, and a stream without rows keeps its time"
        case HoldReason.PAUSED:
            return f"{splits} {'waits' if one else 'wait'} for others to catch up"
