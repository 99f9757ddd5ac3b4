"""What every server that tests start needs: ports, and an end that comes with the test run's."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import socket
import time
from collections.abc import Callable
from random import SystemRandom


def free_ports(count: int) -> list[int]:
    """Below the range from which the system gives ports to clients: a server that is started again finds its ports free."""
    found: set[int] = set()
    while len(found) < count:
        port = SystemRandom().randrange(12_000, 30_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.add(port)
    return list(found)


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.2):
        return True
    return False


def await_up(is_up: Callable[[], bool], limit_s: float, what: str, log: Callable[[], str]) -> None:
    """Returns when the server that is being started answers. ``log``: what it said last, for the error."""
    until = time.monotonic() + limit_s
    while not is_up():
        if time.monotonic() > until:
            raise TimeoutError(f"{what} is not up after {limit_s:.0f} s; its log ends with\n{log()}")
        time.sleep(0.03)


def die_with_parent() -> None:
    """A test run that is killed leaves no server behind."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
