"""How a thread wakes a loop that waits in a ZeroMQ poller."""

from __future__ import annotations

import os
import threading


class Bell:
    """A pipe to register in a poller by ``fileno()``. Ringing is thread-safe, never blocks, and after ``close`` does nothing."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._lock = threading.Lock()
        self._open = True

    def fileno(self) -> int:
        return self._read

    def ring(self) -> None:
        with self._lock:
            if self._open:
                try:
                    os.write(self._write, b"!")
                except BlockingIOError:
                    return  # The pipe is full of rings nobody has heard yet: one more says nothing new.

    def hush(self) -> None:
        """Forget the rings heard. Look at what they announced *after* this, never before."""
        try:
            while os.read(self._read, 4096):
                continue
        except BlockingIOError:
            return

    def close(self) -> None:
        with self._lock:
            self._open = False
            os.close(self._read)
            os.close(self._write)
