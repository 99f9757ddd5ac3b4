"""The control plane: the driver's one socket to all slots of an attempt, and each slot's one socket to the driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import zmq

from tidegate.model.errors import SlotLost
from tidegate.model.ids import Attempt, SlotIndex
from tidegate.model.messages import DriverMessage, SlotMessage
from tidegate.transport.endpoints import DriverEndpoints, SlotEndpoints, present_curve

_encode = msgspec.msgpack.Encoder().encode
_to_driver = msgspec.msgpack.Decoder(DriverMessage)
_to_slot = msgspec.msgpack.Decoder(SlotMessage)

COPY_BYTES_MAX = 64 * 1024
"""A larger message is shared by all that it is sent to; for a smaller one sharing costs more than a copy."""


def slot_identity(attempt: Attempt, slot: SlotIndex) -> bytes:
    """Attempts do not share identities: a zombie of an older one is never mistaken for its successor."""
    return f"{attempt}/{slot}".encode()


class DriverControl:
    """Not thread-safe: belongs to the job master's loop. Messages to slots that are gone are dropped."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], endpoints: DriverEndpoints) -> None:
        self.socket = context.socket(zmq.ROUTER)
        self.socket.set_hwm(0)
        # A slot that reconnects keeps its name, though the old connection may not have been noticed dead yet.
        self.socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self.address = endpoints.bind(self.socket, "control")

    def send(self, slot: SlotIndex, message: SlotMessage) -> None:
        self.send_all((slot,), message)

    def send_all(self, slots: Iterable[SlotIndex], message: SlotMessage) -> None:
        """Encoded once, however many it is for: what a restore sends holds the snapshots of all slots."""
        body = _encode(message)
        for slot in slots:
            self.socket.send_multipart([slot_identity(message.attempt, slot), body], copy=len(body) < COPY_BYTES_MAX)

    def receive(self) -> Iterator[DriverMessage]:
        """All that has arrived. A message that is not one of ours is dropped: it cannot have come from a slot."""
        while True:
            try:
                identity, *body = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                message = _to_driver.decode(body[0]) if len(body) == 1 else None
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if message is not None and identity == slot_identity(message.attempt, message.slot):
                yield message

    def close(self) -> None:
        self.socket.close(linger=200)


class SlotControl:
    """Not thread-safe: belongs to the slot's loop."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], endpoints: SlotEndpoints, attempt: Attempt, slot: SlotIndex
    ) -> None:
        self._attempt = attempt
        self.socket = context.socket(zmq.DEALER)
        self.socket.set_hwm(0)
        self.socket.setsockopt(zmq.IDENTITY, slot_identity(attempt, slot))
        present_curve(self.socket, endpoints.keys, endpoints.keys.driver_public if endpoints.keys else None)
        self.socket.connect(endpoints.control)

    def send(self, message: DriverMessage) -> None:
        self.socket.send(_encode(message))

    def receive(self) -> Iterator[SlotMessage]:
        """All that has arrived for this attempt. Raises SlotLost for a message that no driver of ours has sent."""
        while True:
            try:
                body = self.socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                message = _to_slot.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise SlotLost(
                    f"a message that is not the driver's arrived on the control channel: {error}",
                    hint="the attempt is started again",
                ) from error
            if message.attempt == self._attempt:
                yield message

    def close(self, linger_ms: int) -> None:
        """``linger_ms``: how long the last words may take to leave."""
        self.socket.close(linger=linger_ms)
