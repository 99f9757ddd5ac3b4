"""Checkpoint storage in a bucket: S3 and stores that speak like it, Google Cloud Storage, Azure.

Objects appear whole. Create-if-absent is one conditional put (``If-None-Match: *``, or what the vendor has for it); every put carries a
random mark, so that an answer that got lost can be told from a race that was lost.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, TYPE_CHECKING

from tidegate.model.errors import TidegateError, Unavailable
from tidegate.ports.store import AlreadyThere, BlobStore, Created, CreateOutcome
from tidegate.state.encoded import Encoded
from tidegate.storage.keys import check_key, directory_of
from tidegate.storage.object_clients import open_clients
from tidegate.storage.object_errors import answer_of, explain
from tidegate.storage.options import NO_OPTIONS, StorageOptions
from tidegate.storage.places import BucketPlace
from tidegate.storage.spreading import delete_side_by_side

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta

MARK = "tidegatemark"
"""Metadata of every object: who created it, told by a random number. Azure takes no hyphen in such a name, proxies no underscore."""

PART_BYTES = 8 << 20
"""Larger objects travel in pieces of this size, several at a time."""
PARTS_AT_ONCE = 8
_CONFLICTS_MAX = 5
_LISTED_AT_ONCE = 1_000
_NOT_TOGETHER = (400, 404, 405, 501)
"""Answers of stores that know no request for many objects, or take an absent one for an error."""


class ObjectBlobStore(BlobStore):
    """Asks nobody when it is made: a place that is not there is told by the first call. Threads may share it."""

    deletes_together = True

    def __init__(self, place: BucketPlace, options: StorageOptions = NO_OPTIONS) -> None:
        self._place = place
        self._options = options
        self._clients = open_clients(place, options)
        self._deletes_many = True

    def __repr__(self) -> str:
        return f"ObjectBlobStore({self._place})"

    def create(self, key: str, data: bytes) -> CreateOutcome:
        """One conditional put. ``AlreadyThere`` only when somebody else's object is seen there."""
        mark = secrets.token_hex(16)
        for _ in range(_CONFLICTS_MAX):
            outcome = self._put_if_absent(check_key(key), data, mark)
            if outcome is not None:
                return outcome
        raise Unavailable(
            f"cannot write {self._where(key)}: refused {_CONFLICTS_MAX} times, though nothing is there",
            hint="others write there at the same time; it is tried again",
        )

    def put_own(self, key: str, data: Encoded) -> None:
        """Store an object under a key that nobody else can form: no condition is needed, so it may travel in parts.

        Raises ``Unavailable`` when the outcome is unknown.
        """
        if data.size_bytes <= PART_BYTES:
            self.create(key, data.joined())
        else:
            self._put_parts(key, data.parts(PART_BYTES), data.size_bytes, PARTS_AT_ONCE)

    def _put_parts(self, key: str, source: Iterator[bytes] | IO[bytes], size_bytes: int, at_once: int) -> None:
        """The object appears when all parts have arrived. An answer that was lost counts if it did."""
        import obstore

        check_key(key)
        try:
            obstore.put(
                self._clients.normal,
                key,
                source,
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=at_once,
            )
        except Exception as failure:
            if self._size_at(key) != size_bytes:
                raise self._error(failure, "write", key) from failure

    def read(self, key: str) -> bytes | None:
        """The whole object; a large one is read in parts, several at a time."""
        import obstore

        check_key(key)
        try:
            found = obstore.get(self._clients.normal, key)
            size_bytes = found.meta["size"]
            if size_bytes <= PART_BYTES:
                return bytes(found.bytes())
            return b"".join(self._parts(key, size_bytes, PARTS_AT_ONCE))
        except Exception as failure:
            if self._says_absent(failure):
                return None
            raise self._error(failure, "read", key) from failure

    def list(self, prefix: str = "") -> tuple[str, ...]:
        return tuple(sorted(key for key in self.walk(directory_of(prefix)) if key.startswith(prefix)))

    def walk(self, directory: str = "") -> Iterator[str]:
        """Keys below a directory, page after page, in no order. Listings of these stores show every finished put."""
        return (one["path"] for one in self._objects(directory))

    def _objects(self, directory: str = "") -> Iterator[ObjectMeta]:
        import obstore

        try:
            for page in obstore.list(self._clients.normal, directory or None, chunk_size=_LISTED_AT_ONCE):
                yield from page
        except Exception as failure:
            raise self._error(failure, "list", directory) from failure

    def delete(self, key: str) -> None:
        """Deleting what is not there is no error."""
        import obstore

        check_key(key)
        try:
            obstore.delete(self._clients.normal, key)
        except Exception as failure:
            if not self._says_absent(failure):
                raise self._error(failure, "delete", key) from failure

    def delete_many(self, keys: Sequence[str]) -> dict[str, str]:
        """Many in one request where the store knows that, else several requests at a time."""
        import obstore

        wanted = [check_key(key) for key in keys]
        if self._deletes_many and len(wanted) > 1:
            try:
                obstore.delete(self._clients.deleting, wanted)
            except Exception as failure:  # noqa: BLE001  every error of the client becomes one of ours
                if answer_of(failure).status not in _NOT_TOGETHER and not isinstance(failure, FileNotFoundError):
                    message = self._error(failure, "delete", f"{wanted[0]} and {len(wanted) - 1} more").message
                    return dict.fromkeys(wanted, message)
                self._deletes_many = False
            else:
                return {}
        return delete_side_by_side(self.delete, wanted)

    # --- what became of a put ------------------------------------------------------------------------------------------

    def _put_if_absent(self, key: str, data: bytes, mark: str) -> CreateOutcome | None:
        """None: refused, and there is nothing. Of several puts at the same moment all may be told so; they have to be repeated."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        client = self._clients.normal if len(data) <= PART_BYTES else self._clients.bulk
        try:
            obstore.put(client, key, data, mode="create", attributes={MARK: mark}, use_multipart=False)
        except AlreadyExistsError:
            # It may be our own object: the client repeats a put whose answer was lost.
            found = self._mark_at(key)
            if found is None:
                return None
        except Exception as failure:  # noqa: BLE001  every error of the client becomes one of ours
            found = self._seen(key, failure)
        else:
            return Created()
        return Created() if found == mark else AlreadyThere()

    def _seen(self, key: str, failure: Exception) -> str:
        """The mark of what stands there after a put without a good answer. Nothing there settles nothing: it may still land."""
        try:
            found = self._mark_at(key)
        except Unavailable:
            found = None
        if found is None:
            raise self._error(failure, "write", key) from failure
        return found

    def _mark_at(self, key: str) -> str | None:
        """The mark of the object under ``key``, empty if it has none; None: there is no object."""
        import obstore

        try:
            found = obstore.get(self._clients.normal, key, options={"head": True})
        except Exception as failure:
            if self._says_absent(failure):
                return None
            raise self._error(failure, "look at", key) from failure
        marks = {str(name).lower(): str(value) for name, value in found.attributes.items()}
        return marks.get(MARK, "")

    def _size_at(self, key: str) -> int | None:
        import obstore

        try:
            return obstore.head(self._clients.normal, key)["size"]
        except Exception:  # noqa: BLE001  then the outcome stays unknown
            return None

    # --- parts, errors -------------------------------------------------------------------------------------------------

    def _parts(
        self, key: str, size_bytes: int, at_once: int, *, start: int = 0, version: str | None = None
    ) -> Iterator[bytes]:
        """The object from ``start`` on, in order, ``at_once`` parts ahead. ``version``: it must still be this one (its ETag)."""
        import obstore

        def part(start: int) -> bytes:
            wanted: GetOptions = {"range": (start, min(start + PART_BYTES, size_bytes))}
            if version is not None:
                wanted["if_match"] = version
            return bytes(obstore.get(self._clients.normal, key, options=wanted).bytes())

        with ThreadPoolExecutor(at_once, "tidegate-read") as readers:
            ahead: deque[Future[bytes]] = deque()
            for begin in range(start, size_bytes, PART_BYTES):
                ahead.append(readers.submit(part, begin))
                if len(ahead) > at_once:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

    def _says_absent(self, failure: Exception) -> bool:
        return isinstance(failure, FileNotFoundError) and not answer_of(failure).place_missing

    def _error(self, failure: Exception, doing: str, key: str) -> TidegateError:
        error = explain(failure, doing, self._where(key))
        return type(error)(self._options.redact(error.message), hint=error.hint)

    def _where(self, key: str) -> str:
        return f"{self._place}/{key}".rstrip("/")
