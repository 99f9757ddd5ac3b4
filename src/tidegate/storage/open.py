"""From the text of a location to its store."""

from __future__ import annotations

from pathlib import Path

from tidegate.model.errors import InvalidQuery
from tidegate.ports.store import BlobStore
from tidegate.storage.local import LocalBlobStore
from tidegate.storage.options import NO_OPTIONS, StorageOptions
from tidegate.storage.places import BucketPlace, HdfsPlace, LocalPlace, place_of


def open_store(location: str, options: StorageOptions = NO_OPTIONS, *, make: bool = True) -> BlobStore:
    """The store of a path or URL. ``make``: a directory is made if it is missing; a bucket has to be there.

    Raises InvalidQuery for a location that names no store or a package that is missing.
    """
    match place_of(location):
        case LocalPlace(path):
            return LocalBlobStore(path, make=make)
        case BucketPlace() as place:
            from tidegate.storage.object_store import ObjectBlobStore

            return ObjectBlobStore(place, options)
        case HdfsPlace() as place:
            from tidegate.storage.hdfs import HdfsBlobStore

            return HdfsBlobStore(place, options, make=make)


def absolute_path(location: str) -> str:
    """The same place, whatever the working directory is by the time it is opened, written in one way."""
    return str(place_of(location))


def is_missing(location: str) -> bool:
    """Whether there is surely nothing, as far as that can be seen without a store."""
    place = place_of(location)
    return isinstance(place, LocalPlace) and not Path(place.path).is_dir()


def local_path(location: str) -> str:
    """The directory that a plain path or a ``file:`` URI names."""
    place = place_of(location)
    if not isinstance(place, LocalPlace):
        raise InvalidQuery(f"{location!r} is no directory of this machine", hint="use a plain path or file:///path")
    return place.path
