"""What every server that tests start needs: ports, and an end that comes with the test run's."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import socket
from random import SystemRandom


def free_ports(count: int) -> list[int]:
    """Below the range from which the system gives ports to clients: a server that is started again finds its ports free."""
    found: list[int] = []
    while len(found) < count:
        port = SystemRandom().randrange(12_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
        return True
    return False


def die_with_parent() -> None:
    """A test run that is killed leaves no server behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
