"""Checkpoint storage in HDFS, through a client that needs no JVM.

A file is written under a temporary name and renamed, which the NameNode refuses when the name is taken: it appears whole, once. Closing
a file waits until a DataNode has reported its last block, up to 0.5 s for the smallest: many files should be written at the same time.
"""

from __future__ import annotations

import importlib.util
import posixpath
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from tidegate.model.errors import InvalidQuery, TidegateError, Unavailable
from tidegate.ports.store import AlreadyThere, BlobStore, Created, CreateOutcome
from tidegate.state.encoded import Encoded
from tidegate.storage.deadline import Late, each_within, within
from tidegate.storage.errors import Refused
from tidegate.storage.keys import TEMPORARY_PREFIX, check_key, directory_of
from tidegate.storage.options import NO_OPTIONS, StorageOptions
from tidegate.storage.places import HdfsPlace
from tidegate.storage.spreading import delete_side_by_side

T = TypeVar("T")

PIECE_BYTES = 8 << 20
"""A large file is written and read in pieces: each has to be done in time, however long all of them take."""
RENAME_TRIES_MAX = 2
_WORDS_MAX = 300

_IMPATIENT = {
    # The client's own defaults are 15 tries over minutes; who asks here tries again, and says so meanwhile.
    "dfs.client.failover.max.attempts": "3",
    "dfs.client.failover.sleep.base.millis": "200",
    "dfs.client.failover.sleep.max.millis": "2000",
}


class HdfsBlobStore(BlobStore):
    """Objects are files under the place's path. Threads may share it. No call takes longer than its timeout."""

    deletes_together = True

    def __init__(self, place: HdfsPlace, options: StorageOptions = NO_OPTIONS, *, make: bool = True) -> None:
        """``make``: the directory is made if it is missing; else it has to be there before the first call."""
        self._place = place
        self._root = place.path
        self._options = options
        self._timeout_s = float(options.number("timeoutSeconds"))
        self._client = _client(place, options)
        if make:
            self._do("make", "", lambda: self._client.mkdirs(self._root, create_parent=True))

    def __repr__(self) -> str:
        return f"HdfsBlobStore({self._place})"

    def create(self, key: str, data: bytes) -> CreateOutcome:
        """Temporary file, then a rename that does not overwrite. A crash leaves nothing or everything under the key."""
        return self._create(key, Encoded((data,), len(data), 0))

    def put_own(self, key: str, data: Encoded) -> None:
        """As ``create``: what stands there already is our own earlier try."""
        self._create(key, data)

    def _create(self, key: str, data: Encoded) -> CreateOutcome:
        target = self._path(key)
        folder, name = posixpath.split(target)
        temporary = f"{folder}/{TEMPORARY_PREFIX}{secrets.token_hex(8)}-{name}"
        try:
            self._write(key, temporary, data)
            outcome = self._rename(key, temporary, target, data)
        except TidegateError:
            self._discard(temporary)
            raise
        if isinstance(outcome, AlreadyThere):
            self._discard(temporary)
        return outcome

    def read(self, key: str) -> bytes | None:
        path = self._path(key)
        pieces: list[bytes] = []

        def steps() -> Iterator[None]:
            file = self._client.read(path)
            size_bytes = len(file)
            yield
            for start in range(0, size_bytes, PIECE_BYTES):
                pieces.append(file.read_range(start, min(PIECE_BYTES, size_bytes - start)))
                yield

        try:
            self._do_each("read", key, steps())
        except FileNotFoundError:
            self._check_root()
            return None
        return b"".join(pieces)

    def list(self, prefix: str = "") -> tuple[str, ...]:
        return tuple(sorted(key for key in self.walk(directory_of(prefix)) if key.startswith(prefix)))

    def walk(self, directory: str = "") -> Iterator[str]:
        """Keys below a directory, in no order."""
        return (key for key, _ in self._walk(directory))

    def _walk(self, directory: str, enters: Callable[[str], bool] = lambda _: True) -> Iterator[tuple[str, Any]]:
        """Keys and what HDFS says of them. Goes from one directory to the next: one that a concurrent sweep removes meanwhile holds nothing."""
        waiting = [directory]
        while waiting:
            folder = waiting.pop()
            path = f"{self._root}/{folder}".rstrip("/")
            try:
                found = self._do("list", folder, lambda path=path: list(self._client.list_status(path)))
            except FileNotFoundError:
                self._check_root()
                continue
            for one in found:
                name = posixpath.join(folder, posixpath.basename(one.path))
                if not one.isdir:
                    if not posixpath.basename(name).startswith(TEMPORARY_PREFIX):
                        yield name, one
                elif enters(name):
                    waiting.append(name)

    def delete(self, key: str) -> None:
        """Deleting what is not there is no error. Directories left empty go too."""
        path = self._path(key)
        with suppress(FileNotFoundError):
            self._do("delete", key, lambda: self._client.delete(path, recursive=False))
        folder = posixpath.dirname(path)
        # One that is not empty refuses; so does the NameNode if something is created there at the same moment.
        with suppress(FileNotFoundError, Unavailable):
            while folder != self._root:
                self._do("delete", key, lambda folder=folder: self._client.delete(folder, recursive=False))
                folder = posixpath.dirname(folder)

    def delete_many(self, keys: Sequence[str]) -> dict[str, str]:
        return delete_side_by_side(self.delete, keys)

    # --- the calls that change something, one each ------------------------------------------------------------------------

    def _write(self, key: str, temporary: str, data: Encoded) -> None:
        from hdfs_native import WriteOptions

        absent = WriteOptions(overwrite=False, create_parent=True)

        def steps() -> Iterator[None]:
            writer = self._client.create(temporary, absent)
            yield
            # Copies: the client takes bytes at once, but a view of them one by one.
            for piece in data.parts(PIECE_BYTES):
                writer.write(piece)
                yield
            writer.close()
            yield

        try:
            self._do_each("write", key, steps())
        except FileNotFoundError as gone:
            raise Unavailable(f"cannot write {self._where(key)}: {_words(gone)}", hint="it is tried again") from gone

    def _rename(self, key: str, temporary: str, target: str, data: Encoded) -> CreateOutcome:
        """Asked again after an answer that was lost: only we know the temporary name, so once it is gone our rename has happened."""
        tries = 0
        while True:
            tries += 1
            try:
                self._do("write", key, lambda: self._client.rename(temporary, target, overwrite=False))
            except FileExistsError:
                return AlreadyThere()
            except FileNotFoundError as gone:
                if self.read(key) == data.joined():
                    return Created()
                raise Unavailable(
                    f"cannot write {self._where(key)}: {_words(gone)}", hint="somebody deletes files there"
                ) from gone
            except Refused:
                raise
            except Unavailable:
                if tries == RENAME_TRIES_MAX:
                    raise
            else:
                return Created()

    def _discard(self, temporary: str) -> None:
        """As far as it goes: what stays is garbage that no listing shows."""
        with suppress(OSError, Unavailable):
            self._do("delete", temporary, lambda: self._client.delete(temporary, recursive=False))

    # --- one call ------------------------------------------------------------------------------------------------------

    def _do(self, doing: str, key: str, call: Callable[[], T]) -> T:
        """FileExistsError and FileNotFoundError pass: they are answers. Everything else is Unavailable or Refused."""
        with self._explained(doing, key):
            return within(self._timeout_s, call)

    def _do_each(self, doing: str, key: str, steps: Iterable[object]) -> None:
        """Many calls, of which each has to be answered in time."""
        with self._explained(doing, key):
            each_within(self._timeout_s, steps)

    @contextmanager
    def _explained(self, doing: str, key: str) -> Iterator[None]:
        try:
            yield
        except (FileExistsError, FileNotFoundError):
            raise
        except Late as late:
            raise Unavailable(
                f"cannot {doing} {self._where(key)}: no answer for {self._timeout_s:g} s",
                hint="is the NameNode up, and are its DataNodes reachable from here? It is tried again",
            ) from late
        except Exception as failure:
            raise self._error(failure, doing, key) from failure

    def _error(self, failure: Exception, doing: str, key: str) -> Unavailable:
        what = f"cannot {doing} {self._where(key)}: {self._options.redact(_words(failure))}"
        text = str(failure)
        if isinstance(failure, PermissionError) or "AccessControlException" in text:
            return Refused(what, hint="give the user that runs Spark permission there (HADOOP_USER_NAME, or Kerberos)")
        if any(word in text for word in ("SASL", "GSSAPI", "Kerberos", "AuthenticationException")):
            return Refused(
                what, hint="check the Kerberos ticket, or storage.kerberosPrincipal and storage.kerberosKeytab"
            )
        if "ParentNotDirectory" in text or "is not a directory" in text:
            return Refused(what, hint="a file stands where a directory is needed")
        if "QuotaExceeded" in text:
            return Unavailable(what, hint="the directory's quota is full: free some space, the query goes on by itself")
        if "SafeMode" in text:
            return Unavailable(what, hint="the NameNode is in safe mode; it is tried again")
        return Unavailable(what, hint="HDFS answered with an error; it is tried again")

    def _check_root(self) -> None:
        """An absent file means nothing if the whole location is gone: never report it as absent."""
        try:
            self._do("reach", "", lambda: self._client.get_file_info(self._root))
        except FileNotFoundError as gone:
            raise Refused(
                f"cannot reach {self._place}: no such directory", hint="create it, or bring it back if it was deleted"
            ) from gone

    def _path(self, key: str) -> str:
        return f"{self._root}/{check_key(key)}"

    def _where(self, key: str) -> str:
        return f"{self._place}/{key}".rstrip("/")


def _client(place: HdfsPlace, options: StorageOptions) -> Any:
    if importlib.util.find_spec("hdfs_native") is None:
        raise InvalidQuery(
            f"{place} needs the Python package 'hdfs-native', which is not installed here",
            hint="pip install 'tidegate[hdfs]', on the driver and on every executor",
        )
    from hdfs_native import Client

    url = f"{place.scheme}://{place.authority}" if place.authority else None
    try:
        return Client(
            url,
            {**_IMPATIENT, **options.hadoop()},
            options.get("configDir"),
            kerberos_principal=options.get("kerberosPrincipal"),
            kerberos_keytab=options.get("kerberosKeytab"),
        )
    except Exception as wrong:  # the client raises what it likes for a bad configuration
        raise InvalidQuery(
            f"{place} cannot be opened: {options.redact(_words(wrong))}",
            hint="name the NameNode (hdfs://host:port/path), or set HADOOP_CONF_DIR to the directory of core-site.xml",
        ) from wrong


def _words(failure: BaseException) -> str:
    """What HDFS says, without the stack of its Java."""
    return (
        str(failure).replace("\\n", "\n").partition("\n\tat ")[0].replace("\\t", "\t").partition("\n")[0][:_WORDS_MAX]
    )
