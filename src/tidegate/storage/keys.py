"""Keys of objects, as every store checks them."""

from __future__ import annotations

from pathlib import PurePosixPath

from tidegate.model.errors import Bug

TEMPORARY_PREFIX = ".tmp-"
"""Files under this prefix are writes that never finished; no listing shows them."""


def check_key(key: str) -> str:
    """The key itself. Raises Bug for one that would leave the location, or hide in it."""
    pure = PurePosixPath(key)
    if not key or pure.is_absolute() or ".." in pure.parts or "\0" in key or pure.name.startswith(TEMPORARY_PREFIX):
        raise Bug(f"storage key {key!r} does not stay inside the checkpoint location")
    return key


def directory_of(prefix: str) -> str:
    """The deepest directory that the prefix names in full; empty: all of the store."""
    return prefix.rpartition("/")[0]
