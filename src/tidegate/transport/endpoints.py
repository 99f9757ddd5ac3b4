"""Where the sockets of one attempt bind, and who may connect to them.

On one host: ``ipc://`` in a directory only the user can enter. Between hosts: TCP with CurveZMQ, keys made for this attempt
and shipped in the task closure; a client without the attempt's key is refused during the handshake.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import zmq

_ROOT = Path("/tmp")
_PREFIX = "tidegate-sockets-"


@dataclass(frozen=True, slots=True)
class CurveKeys:
    """Two key pairs: the driver proves itself with one, every slot of the attempt with the other."""

    driver_public: bytes
    slot_public: bytes
    slot_secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SlotEndpoints:
    """What a slot needs to find the driver and to open its own data socket. Ships in the task closure."""

    control: str
    heartbeat: str
    directory: str | None
    """On one host: where the data sockets bind. None: bind TCP on any free port."""
    keys: CurveKeys | None

    def data_socket(self, attempt: int, slot: int) -> str | None:
        """The ``ipc://`` address to bind, or None for TCP."""
        return None if self.directory is None else f"ipc://{self.directory}/d{attempt}-{slot}"


@dataclass(frozen=True, slots=True)
class DriverEndpoints:
    """What the driver binds for one attempt. ``host`` is how slots reach the driver (``spark.driver.host``)."""

    directory: str | None
    host: str
    keys: CurveKeys | None
    driver_secret: bytes | None = field(repr=False)

    @staticmethod
    def on_one_host() -> DriverEndpoints:
        remove_orphans()
        # A short path: the address of a Unix socket has at most 107 bytes. mkdtemp makes it 0700.
        directory = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_ROOT)
        return DriverEndpoints(directory, "", None, None)

    @staticmethod
    def between_hosts(host: str) -> DriverEndpoints:
        driver_public, driver_secret = zmq.curve_keypair()
        slot_public, slot_secret = zmq.curve_keypair()
        return DriverEndpoints(None, host, CurveKeys(driver_public, slot_public, slot_secret), driver_secret)

    def bind(self, socket: zmq.Socket[bytes], name: str) -> str:
        """Binds and returns the address that slots connect to."""
        if self.directory is not None:
            address = f"ipc://{self.directory}/{name}"
            socket.bind(address)
            return address
        assert self.driver_secret is not None and self.keys is not None
        serve_curve(socket, self.keys.driver_public, self.driver_secret)
        port = socket.bind_to_random_port("tcp://*")
        return f"tcp://{self.host}:{port}"

    def remove(self) -> None:
        """Nothing binds here any more."""
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)


def remove_orphans() -> None:
    """Directories of drivers that were killed: they could not remove them themselves."""
    for directory in _ROOT.glob(f"{_PREFIX}*-*"):
        owner = directory.name.removeprefix(_PREFIX).partition("-")[0]
        try:
            os.kill(int(owner), 0)
        except ProcessLookupError:
            shutil.rmtree(directory, ignore_errors=True)
        except (ValueError, PermissionError):
            continue  # Not one of ours, or of another user whose process lives.


def serve_curve(socket: zmq.Socket[bytes], public: bytes, secret: bytes) -> None:
    """Must be called before ``bind``. The guard of the socket's context decides which client keys are let in."""
    socket.setsockopt(zmq.CURVE_SERVER, 1)
    socket.setsockopt(zmq.CURVE_PUBLICKEY, public)
    socket.setsockopt(zmq.CURVE_SECRETKEY, secret)
    socket.setsockopt(zmq.ZAP_DOMAIN, b"tidegate")


def present_curve(socket: zmq.Socket[bytes], keys: CurveKeys | None, server_public: bytes | None) -> None:
    """Must be called before ``connect``: proves this slot and checks that the server owns ``server_public``."""
    if keys is not None and server_public is not None:
        socket.setsockopt(zmq.CURVE_PUBLICKEY, keys.slot_public)
        socket.setsockopt(zmq.CURVE_SECRETKEY, keys.slot_secret)
        socket.setsockopt(zmq.CURVE_SERVERKEY, server_public)
