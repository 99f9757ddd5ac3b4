"""The data plane of one slot: one socket to receive on, one to send on per peer, all of them drained at once.

ZeroMQ's queues are unbounded here on purpose: credit (in ``runtime/``) bounds what a peer may have under way, and only a socket
that is always drained lets barriers and credit pass rows that wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import zmq

from tidegate.model.elements import Barrier, Element
from tidegate.model.errors import SlotLost
from tidegate.model.ids import Attempt, ChannelId, SlotIndex
from tidegate.transport import wire
from tidegate.transport.endpoints import SlotEndpoints, present_curve, serve_curve

RECEIVE_FRAMES_MAX = 256
"""Most frames taken from the socket in one go, so that control messages are served in between."""

CREDIT_REPEATS = 3
"""At so many barriers credit is said again after it changed. Between a thousand pairs of slots without rows, repeating it at every
barrier would be as many messages as the barriers themselves."""


@dataclass(frozen=True, slots=True)
class Received:
    """An element of a channel, in order and without gaps."""

    channel: ChannelId
    sequence: int
    element: Element


@dataclass(frozen=True, slots=True)
class CreditReceived:
    """The peer consumed this much more of ``channel`` since the last time."""

    channel: ChannelId
    batches: int
    size_bytes: int


Arrival: TypeAlias = Received | CreditReceived


class DataPlane:
    """Frames to and from the other slots of one attempt. Not thread-safe: belongs to the slot's loop."""

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoints: SlotEndpoints,
        attempt: Attempt,
        slot: SlotIndex,
        host: str,
    ) -> None:
        self._context = context
        self._endpoints = endpoints
        self._attempt = attempt
        self._slot = slot
        self._peers: dict[SlotIndex, zmq.Socket[bytes]] = {}
        self._next_sequence: dict[ChannelId, int] = {}
        self._granted: dict[ChannelId, tuple[int, int]] = {}
        self._say_again: dict[ChannelId, int] = {}
        """At how many more barriers the credit of a channel is said again."""
        self._credited: dict[ChannelId, tuple[int, int]] = {}
        self.socket = _unbounded(context.socket(zmq.PULL))
        address = endpoints.data_socket(attempt, slot)
        if address is not None:
            self.socket.bind(address)
        else:
            keys = endpoints.keys
            assert keys is not None
            serve_curve(self.socket, keys.slot_public, keys.slot_secret)
            address = f"tcp://{host}:{self.socket.bind_to_random_port('tcp://*')}"
        self.address = address

    def connect(self, addresses: tuple[str, ...]) -> None:
        """Opens the way to every other slot. Returns at once: ZeroMQ connects behind and queues meanwhile."""
        keys = self._endpoints.keys
        for index, address in enumerate(addresses):
            if index != self._slot:
                peer = _unbounded(self._context.socket(zmq.PUSH))
                present_curve(peer, keys, keys.slot_public if keys else None)
                peer.connect(address)
                self._peers[SlotIndex(index)] = peer

    def send(self, channel: ChannelId, sequence: int, element: Element) -> None:
        """Never blocks."""
        parts = wire.encode_element(self._attempt, channel, sequence, element)
        self._peers[channel.target].send_multipart(parts, copy=False)

    def grant(self, channel: ChannelId, batches: int, size_bytes: int) -> None:
        """Tells the sender of ``channel`` that this much more was consumed. Never blocks."""
        batches_total, bytes_total = self._granted.get(channel, (0, 0))
        self._granted[channel] = (batches_total + batches, bytes_total + size_bytes)
        self._say_again[channel] = CREDIT_REPEATS
        self._send_granted(channel)

    def _send_granted(self, channel: ChannelId) -> None:
        parts = wire.encode_credit(self._attempt, channel, *self._granted[channel])
        self._peers[channel.source].send_multipart(parts)

    def receive(self) -> Iterator[Arrival]:
        """What has arrived. Raises SlotLost when a frame is missing, damaged or of another attempt."""
        for _ in range(RECEIVE_FRAMES_MAX):
            try:
                parts = self.socket.recv_multipart(zmq.NOBLOCK, copy=False)
            except zmq.Again:
                return
            frame = wire.decode([part.buffer for part in parts])
            if frame.attempt != self._attempt:
                raise SlotLost(
                    f"a frame of attempt {frame.attempt} arrived in attempt {self._attempt}, on channel {frame.channel}"
                )
            match frame:
                case wire.ElementFrame(_, channel, sequence, element):
                    expected = self._next_sequence.get(channel, 0)
                    if sequence != expected:
                        raise SlotLost(
                            f"channel {channel} lost frames: number {sequence} arrived where {expected} was due"
                        )
                    self._next_sequence[channel] = expected + 1
                    if isinstance(element, Barrier) and self._say_again.get(channel, 0):
                        # Credit lost with a broken connection would starve the sender for ever.
                        self._say_again[channel] -= 1
                        self._send_granted(channel)
                    yield Received(channel, sequence, element)
                case wire.CreditFrame(_, channel, batches_total, bytes_total):
                    batches, size_bytes = self._credited.get(channel, (0, 0))
                    if batches_total > batches or bytes_total > size_bytes:
                        self._credited[channel] = (batches_total, bytes_total)
                        yield CreditReceived(channel, batches_total - batches, bytes_total - size_bytes)

    def close(self) -> None:
        for socket in (self.socket, *self._peers.values()):
            socket.close(linger=0)


def _unbounded(socket: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
    socket.set_hwm(0)
    socket.linger = 0
    return socket
