"""A real disk that is small: the kernel itself says that it is full, read-only or gone."""

from __future__ import annotations

import errno
import subprocess
from pathlib import Path

import pytest


class SmallDisk:
    """A file system of its own at ``point``, taken away by ``close``."""

    def __init__(self, point: Path, size: str) -> None:
        self.point = point
        self._size = size
        point.mkdir()
        self._mounts = 0
        self._mount(f"size={size}")

    def fill(self) -> None:
        """Not one more byte fits."""
        with (self.point / "ballast").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 4_096)
            except OSError as full:
                assert full.errno == errno.ENOSPC

    def free(self) -> None:
        (self.point / "ballast").unlink()

    def make_read_only(self) -> None:
        self._mount("remount,ro")

    def make_writable(self) -> None:
        self._mount("remount,rw")

    def hide(self) -> None:
        """Another file system over it: what an unmounted disk leaves is an empty directory that takes every write."""
        self._mount(f"size={self._size}")

    def show(self) -> None:
        subprocess.run(["umount", str(self.point)], check=True)
        self._mounts -= 1

    def close(self) -> None:
        """Also while somebody has files open there."""
        for _ in range(self._mounts):
            subprocess.run(["umount", "--lazy", str(self.point)], check=True)
        self._mounts = 0

    def _mount(self, options: str) -> None:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.point)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"this machine does not let us mount: {done.stderr.strip()}")
        self._mounts += not options.startswith("remount")
