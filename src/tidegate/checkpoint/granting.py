"""Which watermark the readers of a source may be told, from all sources that event time ties together.

Sources of one stream (a union below one ``withWatermark``) go on together: whoever has something unread holds the others. Readers of
logs tell their own time; those of them that have nothing to read are told the stream's. A source whose rows nobody asks for the time
follows the others, one settled cohort at a time, or for as long as it rests. No reader that rests is passed over as idle: what ends its rest may
be on its way while others go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidegate.checkpoint.plan import CheckpointPlan
from tidegate.checkpoint.sources import ReaderTime, SplitAssigner
from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.ids import OperatorId


def granted(plan: CheckpointPlan, sources: tuple[SplitAssigner, ...]) -> tuple[SplitAssigner, ...]:
    """The sources, each with the newest watermark that its readers may be told. It never goes back."""
    streams: dict[OperatorId, list[SplitAssigner]] = {}
    for source in sources:
        stream = plan.stream_of(source.operator)
        if stream is not None:
            streams.setdefault(stream, []).append(source)
    whole_us = {stream: _of_whole(members) for stream, members in streams.items()}
    logs_us = {stream: _of_logs(members, whole_us[stream]) for stream, members in streams.items()}
    newest_us = max([*whole_us.values(), *logs_us.values()], default=WATERMARK_MIN_US)
    now = tuple(
        _with_grant(source, plan.stream_of(source.operator), whole_us, logs_us, newest_us) for source in sources
    )
    return _rested(now, [source for source in now if source.operator in plan.far_sources and not source.ordered])


def _with_grant(
    source: SplitAssigner,
    stream: OperatorId | None,
    whole_us: dict[OperatorId, int],
    logs_us: dict[OperatorId, int],
    newest_us: int,
) -> SplitAssigner:
    if stream is None:
        # What others have read since its cohort became the current one makes none of its rows late.
        follows = not source.unread or source.cohorts.start != source.followed
        if source.ordered or not follows:
            return source
        return replace(source, followed=source.cohorts.start, granted_us=max(source.granted_us, newest_us))
    if source.ordered:
        us = logs_us[stream]
    else:
        # Whole splits that have all been read do not hold the logs beside them.
        us = whole_us[stream] if source.unread else max(whole_us[stream], logs_us[stream])
    return source if us <= source.granted_us else replace(source, granted_us=us)


def _rested(sources: tuple[SplitAssigner, ...], far: Sequence[SplitAssigner]) -> tuple[SplitAssigner, ...]:
    """The rest of all whose time is told behind an exchange has a number, the same for all: only where every channel brings that number is
    nothing on its way any more."""
    if not far or any(not source.discovered or source.cohorts.start < source.cohorts.known for source in far):
        return sources
    if all(source.rested == source.cohorts.known for source in far):
        return sources
    number = 1 + max(source.rest for source in far)
    names = {source.operator for source in far}
    return tuple(
        replace(source, rest=number, rested=source.cohorts.known) if source.operator in names else source
        for source in sources
    )


def _of_whole(members: Sequence[SplitAssigner]) -> int:
    if not all(source.complete for source in members):
        return WATERMARK_MIN_US  # Somebody could not be asked.
    whole = [source for source in members if not source.ordered]
    holding = [source.cohorts.granted_us for source in whole if source.unread]
    return min(holding) if holding else max((source.cohorts.granted_us for source in whole), default=WATERMARK_MIN_US)


def _of_logs(members: Sequence[SplitAssigner], whole_us: int) -> int:
    logs = [source for source in members if source.ordered]
    if not logs or any(len(source.times) < len(source.shares) for source in logs):
        return WATERMARK_MIN_US
    holding = [whole_us] if any(source.unread for source in members) else []
    holding += [time.watermark_us for time in _times(logs) if not time.idle]
    if holding:
        return min(holding)
    return max([whole_us, *(time.watermark_us for time in _times(logs))])


def _times(logs: Iterable[SplitAssigner]) -> list[ReaderTime]:
    return [time for source in logs for time in source.times]
