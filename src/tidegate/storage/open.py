"""From the text of ``checkpointLocation`` to a store."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidegate.model.errors import InvalidQuery
from tidegate.storage.local import LocalBlobStore

SCHEMES = ("file",)


def open_store(location: str, *, make: bool = True) -> LocalBlobStore:
    """``/data/q1`` and ``file:///data/q1`` name a directory, made if ``make`` and missing; any other scheme is refused."""
    return LocalBlobStore(local_path(location), make=make)


def absolute_path(location: str) -> str:
    """The same place, whatever the working directory is by the time it is opened."""
    return str(Path(local_path(location)).absolute())


def local_path(location: str) -> str:
    """The directory that a plain path or a ``file:`` URI names."""
    scheme, mark, _ = location.partition(":")
    # One letter before the colon would be a drive, and a slash before it a path that contains a colon.
    if not mark or "/" in scheme or len(scheme) < 2:
        if not location:
            raise InvalidQuery("the checkpoint location is empty", hint="set option checkpointLocation to a directory")
        return location
    if scheme.lower() != "file":
        raise InvalidQuery(
            f"checkpoint location {location!r}: there is no store for {scheme}://",
            hint=f"use a plain path or one of: {', '.join(s + '://' for s in SCHEMES)}",
        )
    parts = urlsplit(location)
    if parts.netloc not in ("", "localhost"):
        raise InvalidQuery(
            f"checkpoint location {location!r} names the host {parts.netloc!r}",
            hint="a file location has three slashes: file:///data/checkpoints",
        )
    return unquote(parts.path)
