"""What survives a power cut: files and directory entries, forced to the disk."""

from __future__ import annotations

import os
from pathlib import Path

TEMPORARY_SUFFIX = ".tmp"
"""Hidden files with this ending are writes that a crash cut short."""


def sync(path: Path) -> None:
    """Forces a file's bytes, or a directory's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """With its parents. Each new name is on the disk when this returns."""
    if directory.is_dir():
        return
    make_directory(directory.parent)
    directory.mkdir(exist_ok=True)
    sync(directory.parent)


def create_whole(target: Path, data: bytes) -> bool:
    """Makes ``target`` with all of ``data``, unless the name is taken: of any number of callers exactly one gets True.

    Either way ``target`` is on the disk afterwards, whole. A crash leaves nothing but a hidden file beside it.
    """
    temporary = target.with_name(f".{target.name}.{os.urandom(8).hex()}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, target)
    except FileExistsError:
        return False
    else:
        return True
    finally:
        temporary.unlink(missing_ok=True)
        sync(target.parent)
