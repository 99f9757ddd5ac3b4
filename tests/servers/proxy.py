"""A proxy between a client and a server on 127.0.0.1 that loses answers, cuts, stalls and slows connections when told to.

It knows no protocol: a request is recognised by bytes that only such a request contains (``PUT /``, ``rename2``).
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

_CHUNK = 1 << 16
_TURN_SECONDS = 0.05


@dataclass(slots=True)
class Faults:
    """What goes wrong now. Tests set it while connections are open."""

    lose_answer_to: bytes = b""
    """The next request with these bytes reaches the server; its answer, and the connection, are lost."""
    lost_becomes: bytes = b""
    """What the client gets for the answer that was lost; nothing: only the end of the connection."""
    answer_instead: tuple[bytes, bytes] | None = None
    """Requests with the first bytes never reach the server: they are answered with the second and cut."""
    times: int = 1
    """How often either happens."""
    stalled: bool = False
    """Nothing moves in either direction; connections stay open."""
    answer_bytes_per_s: float = 0.0
    """0: as fast as they come."""
    seen: list[bytes] = field(default_factory=list)
    """One entry for every fault that happened."""


class Proxy:
    """Listens until it is closed. One thread per connection."""

    def __init__(self, target_port: int) -> None:
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.faults = Faults()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, name="proxy", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(self._target) as server:
            losing = False
            while not self._closed.is_set():
                if self.faults.stalled:
                    time.sleep(_TURN_SECONDS)
                    continue
                ready, _, _ = select.select([client, server], [], [], _TURN_SECONDS)
                if client in ready:
                    data = client.recv(_CHUNK)
                    if not data or self._answered(client, data):
                        return
                    losing = losing or self._is_hit(self.faults.lose_answer_to, data)
                    server.sendall(data)
                if server in ready:
                    data = server.recv(_CHUNK)
                    if not data or losing:
                        client.sendall(self.faults.lost_becomes)
                        return
                    self._pass_on(client, data)

    def _answered(self, client: socket.socket, data: bytes) -> bool:
        instead = self.faults.answer_instead
        if instead is None or not self._is_hit(instead[0], data):
            return False
        client.sendall(instead[1])
        # A connection that is cut with unread bytes is reset, and the answer may be lost with it.
        client.shutdown(socket.SHUT_WR)
        while client.recv(_CHUNK):
            pass
        return True

    def _is_hit(self, pattern: bytes, data: bytes) -> bool:
        with self._lock:
            if not pattern or pattern not in data or self.faults.times <= 0:
                return False
            self.faults.times -= 1
            self.faults.seen.append(pattern)
            return True

    def _pass_on(self, client: socket.socket, data: bytes) -> None:
        rate = self.faults.answer_bytes_per_s
        client.sendall(data)
        if rate:
            time.sleep(len(data) / rate)


@contextlib.contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()


def http_answer(status: str, body: str) -> bytes:
    data = body.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\nContent-Length: {len(data)}\r\nConnection: close\r\n\r\n"
    return head.encode() + data
