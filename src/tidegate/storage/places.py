"""What the text of a location names: a directory, a prefix in a bucket, or a directory in HDFS."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from tidegate.model.errors import InvalidQuery

S3_SCHEMES = ("s3", "s3a", "s3n")
GCS_SCHEMES = ("gs",)
AZURE_SCHEMES = ("az", "abfs", "abfss")
HDFS_SCHEMES = ("hdfs", "viewfs")
SCHEMES = ("file", *S3_SCHEMES, *GCS_SCHEMES, *AZURE_SCHEMES, *HDFS_SCHEMES)

_AZURE_HOST = re.compile(r"([^@]+)@([^.@]+)\.[a-z]+\.core\.windows\.net")


@dataclass(frozen=True, slots=True)
class LocalPlace:
    path: str

    def __str__(self) -> str:
        return str(Path(self.path).absolute())


@dataclass(frozen=True, slots=True)
class BucketPlace:
    """``prefix``: below which all keys lie, without a slash at either end; empty: the whole bucket."""

    scheme: str
    """``s3``, ``gs`` or ``az``, whatever the location called it."""
    bucket: str
    prefix: str
    account: str = ""
    """Of Azure, when the location names it."""

    def __str__(self) -> str:
        if self.account:
            return f"abfss://{self.bucket}@{self.account}.dfs.core.windows.net/{self.prefix}".rstrip("/")
        return f"{self.scheme}://{self.bucket}/{self.prefix}".rstrip("/")


@dataclass(frozen=True, slots=True)
class HdfsPlace:
    """``authority``: a NameNode or a name service; empty: the default file system of Hadoop's configuration."""

    scheme: str
    authority: str
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


Place: TypeAlias = LocalPlace | BucketPlace | HdfsPlace


def place_of(location: str) -> Place:
    """Raises InvalidQuery, which says what a location looks like."""
    scheme, mark, _ = location.partition(":")
    # One letter before the colon would be a drive, and a slash before it a path that contains a colon.
    if not mark or "/" in scheme or len(scheme) < 2:
        if not location:
            raise InvalidQuery("the checkpoint location is empty", hint="set option checkpointLocation to a directory")
        return LocalPlace(location)
    match scheme.lower():
        case "file":
            return _local(location)
        case "s3" | "s3a" | "s3n":
            return _bucket(location, "s3")
        case "gs":
            return _bucket(location, "gs")
        case "az" | "abfs" | "abfss":
            return _azure(location)
        case "hdfs" | "viewfs":
            return _hdfs(location)
        case _:
            raise InvalidQuery(
                f"location {location!r}: there is no store for {scheme}://",
                hint=f"use a plain path or one of: {', '.join(s + '://' for s in SCHEMES)}",
            )


def _local(location: str) -> LocalPlace:
    parts = urlsplit(location)
    if parts.netloc not in ("", "localhost"):
        raise InvalidQuery(
            f"location {location!r} names the host {parts.netloc!r}",
            hint="a file location has three slashes: file:///data/checkpoints",
        )
    return LocalPlace(unquote(parts.path))


def _bucket(location: str, scheme: str) -> BucketPlace:
    authority, path = _split(location)
    if "@" in authority:
        raise InvalidQuery(
            f"the location in bucket {authority.rpartition('@')[2]!r} carries credentials",
            hint="give them as options (storage.accessKeyId, storage.secretAccessKey) or by the environment",
        )
    if not authority or ":" in authority:
        raise InvalidQuery(
            f"location {location!r} names no bucket", hint=f"it has the form {scheme}://bucket/some/prefix"
        )
    return BucketPlace(scheme, authority, _prefix(location, path))


def _azure(location: str) -> BucketPlace:
    authority, path = _split(location)
    prefix = _prefix(location, path)
    if "@" not in authority:
        if authority:
            return BucketPlace("az", authority, prefix)
    elif match := _AZURE_HOST.fullmatch(authority):
        return BucketPlace("az", match[1], prefix, account=match[2])
    raise InvalidQuery(
        f"location {location!r} names no container",
        hint="it has the form az://container/prefix or abfss://container@account.dfs.core.windows.net/prefix",
    )


def _hdfs(location: str) -> HdfsPlace:
    authority, path = _split(location)
    scheme = location.partition(":")[0].lower()
    plain = "/" + _prefix(location, path)
    if plain == "/":
        raise InvalidQuery(
            f"location {location!r} is the root of HDFS", hint="name a directory: hdfs://namenode/some/path"
        )
    return HdfsPlace(scheme, authority, plain)


def _split(location: str) -> tuple[str, str]:
    """Host and path. Not by ``urlsplit``: a ``?`` or ``#`` in a name is part of it, as everywhere in Hadoop."""
    rest = location.partition(":")[2]
    if not rest.startswith("//"):
        raise InvalidQuery(f"location {location!r} lacks the two slashes after the colon")
    authority, _, path = rest[2:].partition("/")
    return authority, path


def _prefix(location: str, path: str) -> str:
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise InvalidQuery(f"location {location!r} contains '.' or '..'", hint="write the path out")
    return "/".join(parts)
