"""Many watermarks in, one out: what a subtask with several input channels may promise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
    """The combined watermark is the minimum over the channels that still bring rows. It never goes back.

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
    ) -> None:
        self._channels = {channel: ChannelTime(start_us, silent=channel in silent) for channel in channels}
        self.combined_us = start_us

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
        live = [time.at_us for time in times if not (time.idle or time.ended or time.silent)]
        candidate = min(live) if live else max(time.at_us for time in times)
        if candidate >= WATERMARK_MAX_US and any(time.at_us < WATERMARK_MAX_US for time in times):
            return None
        if candidate <= self.combined_us:
            return None
        self.combined_us = candidate
        return candidate
