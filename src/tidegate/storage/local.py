"""Checkpoint storage in a directory: a local disk, or a file system every host mounts at the same path."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from tidegate.model.os_errors import explain
from tidegate.ports.store import AlreadyThere, BlobStore, Created
from tidegate.state.encoded import Encoded
from tidegate.storage.keys import TEMPORARY_PREFIX, check_key, directory_of

DIRECTORY_TRIES_MAX = 20
"""How often a directory may be removed under a write before it is given up."""


class LocalBlobStore(BlobStore):
    """Objects are files under ``root``. A file appears whole, once, under its final name, and is never overwritten.

    Relied on: ``link`` fails when the name exists, on every POSIX file system and between hosts on NFS.
    """

    def __init__(self, root: str | Path, *, make: bool = True) -> None:
        """``make``: the directory is made if it is missing; else it has to be there before the first call."""
        self.root = Path(root).absolute()
        try:
            if make:
                self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise explain(error, "make", self.root) from error
        self._made: set[Path] = set()

    def create(self, key: str, data: bytes) -> Created | AlreadyThere:
        """Temporary file, fsync, link to the final name, fsync of the directory: a crash leaves nothing or everything."""
        return self._create(key, data)

    def put_own(self, key: str, data: Encoded) -> None:
        """As ``create``: what stands there already is our own earlier try."""
        self._create(key, data)

    def _create(self, key: str, data: bytes | Encoded) -> Created | AlreadyThere:
        target = self._path(key)
        temporary = target.with_name(f"{TEMPORARY_PREFIX}{os.urandom(8).hex()}-{target.name}")
        try:
            self._write_beside(temporary, data)
            outcome = self._publish(temporary, target)
            # Also when somebody else made it: what we report as there must survive a power cut. A directory that is gone
            # by now held the object, and whoever deleted that removed it.
            with contextlib.suppress(FileNotFoundError):
                self._sync_directory(target.parent)
        except OSError as error:
            raise explain(error, "write", target) from error
        return outcome

    def _write_beside(self, temporary: Path, data: bytes | Encoded) -> None:
        """Whoever deletes the last object of a directory removes the directory, at any moment before our file is in it."""
        for tries_left in reversed(range(DIRECTORY_TRIES_MAX)):
            try:
                self._make_directory(temporary.parent)
                self._write(temporary, data)
            except FileNotFoundError:
                self._made.discard(temporary.parent)
                self._check_root(temporary)
                if not tries_left:
                    raise
            except OSError:
                self._made.discard(temporary.parent)
                self._unlink(temporary)
                raise
            else:
                return

    def _publish(self, temporary: Path, target: Path) -> Created | AlreadyThere:
        try:
            self._link(temporary, target)
        except FileExistsError:
            return AlreadyThere()
        finally:
            # After a crash the temporary file stays: garbage that no listing shows.
            self._unlink(temporary)
        return Created()

    def read(self, key: str) -> bytes | None:
        """The whole object, or None when there is none."""
        path = self._path(key)
        try:
            return path.read_bytes()
        except FileNotFoundError:
            self._check_root(path)
            return None
        except OSError as error:
            raise explain(error, "read", path) from error

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Keys that start with ``prefix``, sorted."""
        # Only the deepest directory that the prefix names in full has to be walked.
        directory = self._path(directory_of(prefix)) if directory_of(prefix) else self.root
        keys: list[str] = []
        self._check_root(directory)

        def fail(error: OSError) -> None:
            if not isinstance(error, FileNotFoundError):  # A directory that a concurrent sweep removed holds nothing.
                raise error

        try:
            for folder, _, names in os.walk(directory, onerror=fail):
                relative = Path(folder).relative_to(self.root).as_posix()
                base = "" if relative == "." else relative + "/"
                keys += [base + name for name in names if not name.startswith(TEMPORARY_PREFIX)]
        except OSError as error:
            raise explain(error, "list", directory) from error
        return tuple(sorted(key for key in keys if key.startswith(prefix)))

    def delete(self, key: str) -> None:
        """Deleting what is not there is no error. Directories left empty go too."""
        path = self._path(key)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise explain(error, "delete", path) from error
        for parent in path.relative_to(self.root).parents:
            folder = self.root / parent
            if folder == self.root:
                break
            try:
                folder.rmdir()
            except OSError:
                break  # Not empty, or gone already: both are fine.
            self._made.discard(folder)

    # The calls that change the disk, one each: tests make every one of them fail or never return.

    def _make_directory(self, directory: Path) -> None:
        if directory in self._made:
            return
        missing = [p for p in (directory, *directory.parents) if self.root in p.parents and not p.exists()]
        self._check_root(directory)
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            self._sync_directory(folder.parent)
        self._made.add(directory)

    def _write(self, path: Path, data: bytes | Encoded) -> None:
        with path.open("xb") as file:
            file.writelines(data.pieces if isinstance(data, Encoded) else (data,))
            file.flush()
            os.fsync(file.fileno())

    def _link(self, temporary: Path, target: Path) -> None:
        os.link(temporary, target)

    def _unlink(self, temporary: Path) -> None:
        temporary.unlink(missing_ok=True)

    def _sync_directory(self, directory: Path) -> None:
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _path(self, key: str) -> Path:
        return self.root / check_key(key)

    def _check_root(self, path: Path) -> None:
        """An absent object means nothing if the whole location is gone (an unmounted disk): never report it as absent."""
        if not self.root.is_dir():
            raise explain(FileNotFoundError(errno.ENOENT, "no such directory"), "reach", self.root)
