"""Many watermarks in, one out: what a subtask with several input channels may promise.

Channels of one edge bring parts of one stream, so their minimum counts, always. Where streams meet, at a union or a join, the minimum over
the edges counts as well, or with the policy ``max`` the maximum: rows of the slower streams may then be late.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from tidegate.model.config import WatermarkPolicy
from tidegate.model.elements import WATERMARK_MAX_US, WATERMARK_MIN_US
from tidegate.model.ids import ChannelId


@dataclass(slots=True)
class ChannelTime:
    """Event time of one channel. ``silent``: nothing upstream assigns watermarks, so none is waited for."""

    at_us: int
    idle: bool = False
    ended: bool = False
    silent: bool = False


class WatermarkCombiner:
    """The combined watermark is the minimum over the channels that still bring rows (or as ``policy`` says). It never goes back.

    Idle and ended channels do not count. When no other is left, the latest of them stands: the same as if the slower ones had
    fallen silent first. The last watermark of a drain (``WATERMARK_MAX_US``) takes effect only once every channel has brought
    it, silent ones included.
    """

    def __init__(
        self,
        channels: Iterable[ChannelId],
        *,
        start_us: int = WATERMARK_MIN_US,
        silent: frozenset[ChannelId] = frozenset(),
        policy: WatermarkPolicy = WatermarkPolicy.MIN,
    ) -> None:
        self._channels = {channel: ChannelTime(start_us, silent=channel in silent) for channel in channels}
        self.combined_us = start_us
        self._policy = policy

    def on_watermark(self, channel: ChannelId, at_us: int) -> int | None:
        """The new combined watermark if it rose. Also ends the channel's idleness."""
        time = self._channels[channel]
        time.idle = False
        time.at_us = max(time.at_us, at_us)
        return self._advance()

    def on_active(self, channel: ChannelId) -> None:
        self._channels[channel].idle = False

    def on_idle(self, channel: ChannelId) -> int | None:
        self._channels[channel].idle = True
        return self._advance()

    def on_end(self, channel: ChannelId) -> int | None:
        self._channels[channel].ended = True
        return self._advance()

    def is_idle(self, channel: ChannelId) -> bool:
        return self._channels[channel].idle

    @property
    def idle(self) -> bool:
        """Nothing is coming for now: every channel is idle or ended, and not all of them ended."""
        times = self._channels.values()
        return all(time.idle or time.ended for time in times) and not self.ended

    @property
    def ended(self) -> bool:
        return all(time.ended for time in self._channels.values())

    def times(self) -> dict[ChannelId, ChannelTime]:
        """By reference, for snapshots: encode it before anything else happens."""
        return self._channels

    def _advance(self) -> int | None:
        times = self._channels.values()
        candidate = _slowest(times) if self._policy is WatermarkPolicy.MIN else self._fastest_stream()
        if candidate >= WATERMARK_MAX_US and any(time.at_us < WATERMARK_MAX_US for time in times):
            return None
        if candidate <= self.combined_us:
            return None
        self.combined_us = candidate
        return candidate

    def _fastest_stream(self) -> int:
        streams: dict[int, list[ChannelTime]] = {}
        for channel, time in self._channels.items():
            streams.setdefault(channel.edge, []).append(time)
        return max(_slowest(times) for times in streams.values())


def _slowest(times: Collection[ChannelTime]) -> int:
    live = [time.at_us for time in times if not (time.idle or time.ended or time.silent)]
    return min(live) if live else max(time.at_us for time in times)
