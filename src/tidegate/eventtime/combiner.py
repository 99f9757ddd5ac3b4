"""Many watermarks in, one out: what a subtask with several input channels may promise.

Channels of one stream, of what lies below one ``withWatermark``, bring parts of it: their minimum counts, and channels that bring nothing
for now do not. Where streams meet, at a union or a join, the minimum over the streams counts, or with the policy ``max`` the maximum: rows
of the slower streams may then be late. A stream that is quiet altogether stands where it stood, and counts, as in Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.model.config import WatermarkPolicy
from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US, Idle
from tidegate.model.ids import ChannelId, OperatorId

Streams: TypeAlias = frozenset[OperatorId]
"""The ``withWatermark`` of the query whose time comes through an edge; empty: none."""


@dataclass(slots=True)
class ChannelTime:
    """Event time of one channel."""

    at_us: int
    idle: Idle | None = None
    ended: bool = False
    drained: bool = False
    """It has brought the last watermark of a drain: that counts when all have."""

    @property
    def brings_rows(self) -> bool:
        """Its time holds that of the others back."""
        return self.idle is None and not self.ended

    @property
    def let_go(self) -> bool:
        """Nobody waits for it, not even as a stream of its own."""
        return self.idle is not None and (self.idle.for_good or self.idle.let_go)


class WatermarkCombiner:
    """The combined watermark is the minimum over the streams (or as ``policy`` says). It never goes back.

    The last watermark of a drain (``WATERMARK_MAX_US``) takes effect only once every channel has brought it.
    """

    def __init__(
        self,
        channels: Iterable[ChannelId],
        *,
        start_us: int = WATERMARK_MIN_US,
        streams: Mapping[int, Streams] | None = None,
        policy: WatermarkPolicy = WatermarkPolicy.MIN,
    ) -> None:
        """``streams``: of each edge. Edges that nobody speaks of are streams of their own."""
        self._channels = {channel: ChannelTime(start_us) for channel in channels}
        self._streams: dict[Streams | int, list[ChannelTime]] = {}
        for channel, time in self._channels.items():
            of = streams.get(channel.edge) if streams is not None else None
            self._streams.setdefault(of if of else channel.edge, []).append(time)
        self._timeless = frozenset(edge for edge, of in (streams or {}).items() if not of)
        """Edges that rows come through for whose time nobody asks: with nothing to bring they do not count."""
        self.combined_us = start_us
        self._policy = policy

    def on_watermark(self, channel: ChannelId, at_us: int) -> int | None:
        """The new combined watermark if it rose. Also ends the channel's idleness."""
        time = self._channels[channel]
        self.on_active(channel)
        if at_us >= WATERMARK_MAX_US:
            time.drained = True
        else:
            time.at_us = max(time.at_us, at_us)
        return self._advance()

    def on_active(self, channel: ChannelId) -> None:
        time = self._channels[channel]
        if time.idle is not None and not time.idle.for_good:
            time.idle = None

    def on_idle(self, channel: ChannelId, how: Idle = Idle()) -> int | None:  # noqa: B008 - a frozen value
        self._channels[channel].idle = how
        return self._advance()

    def on_end(self, channel: ChannelId) -> int | None:
        self._channels[channel].ended = True
        return self._advance()

    def is_idle(self, channel: ChannelId) -> bool:
        """Rows would end it."""
        idle = self._channels[channel].idle
        return idle is not None and not idle.for_good

    @property
    def idle(self) -> Idle | None:
        """Nothing is coming for now, and how: every channel is idle or ended, and not all of them ended."""
        times = self._channels.values()
        if self.ended or any(time.brings_rows for time in times):
            return None
        left = [time.idle for time in times if time.idle is not None and not time.ended]
        return Idle(
            for_good=all(one.for_good for one in left),
            let_go=all(one.for_good or one.let_go for one in left),
            rest=_same_rest(one for one in left if not one.for_good),
        )

    @property
    def rests(self) -> bool:
        """Nothing that is known is still to come, through no channel."""
        idle = self.idle
        return self.ended or (idle is not None and (idle.for_good or idle.rest > 0))

    @property
    def ended(self) -> bool:
        return all(time.ended for time in self._channels.values())

    def times(self) -> dict[ChannelId, ChannelTime]:
        """By reference, for snapshots: encode it before anything else happens."""
        return self._channels

    def _advance(self) -> int | None:
        times = self._channels.values()
        standing = [at_us for key, of in self._streams.items() if (at_us := self._stands_at(key, of)) is not None]
        if not standing:
            # The same as if the slower ones had been let go first.
            candidate = max(time.at_us for time in times)
        else:
            candidate = min(standing) if self._policy is WatermarkPolicy.MIN else max(standing)
        if all(time.drained for time in times):
            candidate = WATERMARK_MAX_US
        if candidate <= self.combined_us:
            return None
        self.combined_us = candidate
        return candidate

    def _stands_at(self, stream: Streams | int, times: Collection[ChannelTime]) -> int | None:
        """Where a stream stands; None: it holds nobody back."""
        bringing = [time.at_us for time in times if time.brings_rows]
        resting = [time for time in times if time.idle is not None and time.idle.rest and not time.ended]
        if resting and (bringing or not _same_rest(time.idle for time in resting if time.idle is not None)):
            # Rows of another rest may be on their way in any of them.
            bringing += [time.at_us for time in resting]
        if bringing:
            return min(bringing)
        latest_us = max(time.at_us for time in times)
        if stream in self._timeless:
            return None
        # A stream that has ended counts where it ended: a later run may go on with it.
        return (
            None
            if any(time.let_go for time in times) and all(time.ended or time.let_go for time in times)
            else latest_us
        )


def _same_rest(idle: Iterable[Idle]) -> int:
    """The number of the rest that all of them are at; 0: they are not."""
    rests = {one.rest for one in idle}
    return rests.pop() if len(rests) == 1 else 0
