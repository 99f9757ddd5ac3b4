"""Signs of life, each side in a thread of its own: neither a long user function nor a busy job master counts as death.

Both judge silence by their own monotonic clock, and only after everything that has arrived was read. A thread that was itself
kept from running (a held interpreter lock, a stopped process) first gives the other side a fresh interval.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import msgspec
import zmq

from tidegate.model.ids import Attempt, SlotIndex
from tidegate.model.messages import DriverAlive, SlotAlive, SlotFailed
from tidegate.transport.bell import Bell
from tidegate.transport.control import SlotControl, slot_identity
from tidegate.transport.endpoints import DriverEndpoints, SlotEndpoints, present_curve

_encode = msgspec.msgpack.Encoder().encode
_alive = msgspec.msgpack.Decoder(SlotAlive)

LAST_WORDS_LINGER_MS = 500
"""How long the last message of a slot may take to get out."""

LEAVE_GRACE_MS = 1_000
"""How long a slot that lost its driver may take to leave by itself before its process is ended."""


class DriverHeartbeat:
    """Answers the slots' heartbeats and reports each slot that fell silent, once, through ``on_silent``.

    ``on_silent`` and ``on_alive``, which hears of every heartbeat, are called in this thread.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoints: DriverEndpoints,
        attempt: Attempt,
        interval_ms: int,
        timeout_ms: int,
        on_silent: Callable[[SlotIndex], None],
        on_alive: Callable[[SlotAlive], None] = lambda _: None,
    ) -> None:
        self._attempt = attempt
        self._interval_ms = interval_ms
        self._timeout_ms = timeout_ms
        self._on_silent = on_silent
        self._on_alive = on_alive
        self._stopping = threading.Event()
        self._bell = Bell()
        self._socket = context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.setsockopt(zmq.ROUTER_HANDOVER, 1)
        self.address = endpoints.bind(self._socket, "heartbeat")
        self._thread = threading.Thread(target=self._run, name=f"tidegate-heartbeat-{attempt}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        answer = _encode(DriverAlive(attempt=self._attempt))
        heard_ms: dict[SlotIndex, float] = {}
        checked_ms = time.monotonic() * 1000
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._bell.fileno(), zmq.POLLIN)
        while not self._stopping.is_set():
            poller.poll(self._interval_ms)
            for identity, alive in self._received():
                if heard_ms.get(alive.slot, 0) >= 0:
                    heard_ms[alive.slot] = time.monotonic() * 1000
                self._socket.send_multipart([identity, answer])
                self._on_alive(alive)
            now_ms = time.monotonic() * 1000
            if now_ms - checked_ms > 2 * self._interval_ms:
                heard_ms = {slot: at if at < 0 else now_ms for slot, at in heard_ms.items()}
            checked_ms = now_ms
            for slot, at in heard_ms.items():
                if 0 <= at < now_ms - self._timeout_ms:
                    heard_ms[slot] = -1  # Reported: once is enough, the attempt is over.
                    self._on_silent(slot)
        self._socket.close()

    def _received(self) -> list[tuple[bytes, SlotAlive]]:
        arrived: list[tuple[bytes, SlotAlive]] = []
        while True:
            try:
                identity, *body = self._socket.recv_multipart(zmq.NOBLOCK)
                alive = _alive.decode(body[0]) if len(body) == 1 else None
            except zmq.Again:
                return arrived
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if alive is not None and alive.attempt == self._attempt:
                arrived.append((identity, alive))

    def stop(self) -> None:
        """Returns when the thread has ended."""
        self._stopping.set()
        self._bell.ring()
        self._thread.join()
        self._bell.close()


class SlotHeartbeat:
    """Tells the driver that this slot lives, and the slot when it must leave: driver silent, or orphaned by its parent.

    ``inside`` says in which operator the loop is, and since when. ``on_lost`` is called in this thread, once. A slot that has not
    called ``stop`` within ``LEAVE_GRACE_MS`` after it, being stuck in a call that never returns, loses its whole process: a zombie
    must not outlive its job. ``overdue`` says that the loop itself will never report what has become of it: its message goes to the
    driver from here, and the process ends.
    """

    def __init__(
        self,
        context: zmq.Context[zmq.Socket[bytes]],
        endpoints: SlotEndpoints,
        attempt: Attempt,
        slot: SlotIndex,
        interval_ms: int,
        timeout_ms: int,
        on_lost: Callable[[str], None],
        inside: Callable[[], tuple[str, float] | None] = lambda: None,
        overdue: Callable[[], SlotFailed | None] = lambda: None,
    ) -> None:
        self._interval_ms = interval_ms
        self._timeout_ms = timeout_ms
        self._on_lost = on_lost
        self._attempt = attempt
        self._slot = slot
        self._inside = inside
        self._overdue = overdue
        self._endpoints = endpoints
        self._stopping = threading.Event()
        self._parent = os.getppid()
        self._socket = context.socket(zmq.DEALER)
        self._socket.linger = 0
        self._socket.setsockopt(zmq.IDENTITY, slot_identity(attempt, slot))
        present_curve(self._socket, endpoints.keys, endpoints.keys.driver_public if endpoints.keys else None)
        self._socket.connect(endpoints.heartbeat)
        self._thread = threading.Thread(target=self._run, name=f"tidegate-heartbeat-{slot}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        checked_ms = heard_ms = time.monotonic() * 1000
        while not self._stopping.wait(self._interval_ms / 1000):
            self._socket.send(_encode(self._sign()))
            if (failure := self._overdue()) is not None:
                self._say_for_the_loop(failure)
                os._exit(1)
            heard = False
            while self._socket.poll(0):
                self._socket.recv()
                heard = True
            now_ms = time.monotonic() * 1000
            # Not run for long ourselves: what the driver sent meanwhile may still be on its way to us.
            if heard or now_ms - checked_ms > 3 * self._interval_ms:
                heard_ms = now_ms
            checked_ms = now_ms
            reason = ""
            if os.getppid() != self._parent:
                reason = "the process that started this slot has ended"
            elif now_ms - heard_ms > self._timeout_ms:
                reason = f"the driver has been silent for {int(now_ms - heard_ms)} ms"
            if reason:
                self._on_lost(reason)
                if not self._stopping.wait(LEAVE_GRACE_MS / 1000):
                    os._exit(1)
                break
        self._socket.close()

    def _say_for_the_loop(self, failure: SlotFailed) -> None:
        """Over a connection of its own, which takes the place of the loop's: a socket belongs to one thread."""
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        control = SlotControl(context, self._endpoints, self._attempt, self._slot)
        control.send(failure)
        control.close(LAST_WORDS_LINGER_MS)
        context.term()  # Returns when the message is out, or cannot get out.

    def _sign(self) -> SlotAlive:
        doing, since_ms = self._inside() or ("", 0.0)
        doing_ms = int(time.monotonic() * 1000 - since_ms) if doing else 0
        return SlotAlive(attempt=self._attempt, slot=self._slot, doing=doing, doing_ms=doing_ms)

    def stop(self) -> None:
        """Returns when the thread has ended."""
        self._stopping.set()
        self._thread.join()
