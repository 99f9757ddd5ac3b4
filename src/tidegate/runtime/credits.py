"""Credit on its way back to the writers: at once inside a slot, once per turn and channel to other slots."""

from __future__ import annotations

from tidegate.model.ids import ChannelId
from tidegate.runtime.effects import GrantCredit
from tidegate.runtime.output_channel import OutputChannel


class Credits:
    def __init__(self) -> None:
        self._local: dict[ChannelId, OutputChannel] = {}
        self._owed: dict[ChannelId, tuple[int, int]] = {}

    def connect(self, output: OutputChannel) -> None:
        """``output`` is written in this slot too."""
        self._local[output.channel] = output

    def consumed(self, channel: ChannelId, batches: int, size_bytes: int) -> None:
        output = self._local.get(channel)
        if output is not None:
            output.grant(batches)
            return
        owed_batches, owed_bytes = self._owed.get(channel, (0, 0))
        self._owed[channel] = (owed_batches + batches, owed_bytes + size_bytes)

    def collect(self) -> tuple[GrantCredit, ...]:
        """What other slots are owed since the last call."""
        if not self._owed:
            return ()
        owed, self._owed = self._owed, {}
        return tuple(GrantCredit(channel, batches, size) for channel, (batches, size) in owed.items())
