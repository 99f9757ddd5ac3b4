"""A wire between a server and its clients that can be cut for some of them: ``connector_storm.py`` puts it before a broker."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from dataclasses import dataclass, field

import psutil

BLOCK_BYTES = 1 << 16
LOOK_S = 0.02


@dataclass
class _Link:
    client: socket.socket
    server: socket.socket
    port: int
    """The client's end."""
    held_until_s: float = 0.0
    held: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Wire:
    """Listens on ``port`` of 127.0.0.1 and carries bytes to ``target`` and back."""

    def __init__(self, target: int) -> None:
        """``target``: a port of 127.0.0.1; may be set later."""
        self.target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._links: list[_Link] = []
        self._cut: dict[int, float] = {}
        threading.Thread(target=self._accept, name="wire", daemon=True).start()

    def cut(self, pid: int, seconds: float) -> int:
        """Nothing of what the process sends or is sent arrives for so long, on connections that it opens meanwhile, too; then they
        break. How many there are now."""
        until_s = time.monotonic() + seconds
        self._cut[pid] = until_s
        ports = _ports(pid)
        links = [link for link in self._links if link.port in ports]
        for link in links:
            link.held_until_s = until_s
            link.held.set()
        return len(links)

    def close(self) -> None:
        self._listening.close()
        for link in self._links:
            link.close()

    def _accept(self) -> None:
        while True:
            try:
                client, (_, port) = self._listening.accept()
            except OSError:
                return  # Closed.
            try:
                server = socket.create_connection(("127.0.0.1", self.target), 1.0)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            link = _Link(client, server, port)
            for pid, until_s in list(self._cut.items()):
                if until_s < time.monotonic():
                    del self._cut[pid]
                elif port in _ports(pid):
                    link.held_until_s = until_s
                    link.held.set()
            self._links = [one for one in self._links if one.client.fileno() != -1] + [link]
            # Both are ready before either is carried: whoever finds an end gone closes the other.
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._carry, args=(link, source, sink), daemon=True).start()

    def _carry(self, link: _Link, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(BLOCK_BYTES):
                if link.held.is_set():
                    while time.monotonic() < link.held_until_s:
                        time.sleep(LOOK_S)
                    break
                sink.sendall(data)
        except OSError:
            pass  # Either end is gone: so is the other.
        link.close()


def _ports(pid: int) -> set[int]:
    """Local ends of the connections of a process."""
    try:
        return {one.laddr.port for one in psutil.Process(pid).net_connections("tcp") if one.laddr}
    except psutil.Error:
        return set()
