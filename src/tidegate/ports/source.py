"""The roles of a source."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import polars as pl

from tidegate.model.snapshot import Split, SplitPosition
from tidegate.ports.side import ConnectorSide


class SplitReader(ABC):
    """Reads one open split. Never blocks for longer than about 50 ms of work."""

    @abstractmethod
    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        """The next rows (at most ``rows_max``), or None when there are none right now."""

    @property
    @abstractmethod
    def position(self) -> bytes:
        """After the last row *returned by read*, whatever was prefetched."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """The split has an end and it has been read."""

    @abstractmethod
    def describe(self) -> str:
        """Position for people: ``part-00003.parquet row 12000``."""

    def look(self) -> None:
        """Find out where the input ends now, without waiting for the answer. For readers that fetch in the background: their ``read``
        may have nothing although rows are there."""

    @property
    def caught_up(self) -> bool:
        """What was there at the last look has been returned by ``read``."""
        return True

    @property
    def awaits_rows(self) -> bool:
        """Rows are on their way: watermarks wait for them, however long that takes."""
        return False

    @property
    def empty_answers(self) -> int | None:
        """How often, since the split was opened, the source has answered that there is nothing behind what ``read`` has returned. None:
        it answers at every read. One that is far away does not: that nothing came does not mean that nothing is there."""
        return None

    def close(self) -> None:
        """Nothing is held open."""


class SourceConnector(ConnectorSide, ABC):
    """Slot side of a source: opens splits."""

    @abstractmethod
    def open(self, split: Split, position: bytes | None) -> SplitReader: ...

    def completed(self, positions: tuple[SplitPosition, ...]) -> None:
        """A checkpoint is complete that has these splits of the subtask where they stand here, ended ones at their ends.
        Called once per checkpoint, if at all; must not wait. For sources that tell others how far the query has come."""

    def close(self) -> None:
        """The subtask is over; its readers are closed."""


class SplitEnumerator(ConnectorSide, ABC):
    """Driver side of a source. Numbers splits densely in discovery order and never numbers one again. May do I/O in ``discover``."""

    endless: bool = False
    """Splits never end: all are dealt out at once, since they move through time together and none may wait for another to end."""
    ordered: bool = False
    """Rows of a split come in the order of their time, or nearly."""
    asked: str | None = None
    """What the user's options say about the beginning of a source that begins where it stands at the first start: with other options
    that is decided anew. None: the beginning is the same at any time, and nothing needs to be stored."""

    holds: bool = False
    """Something that is to be freed: the end of an attempt waits a while for ``close``."""

    def check(self) -> None:
        """Raises InvalidQuery if there is nothing to read from. Called once, when the query is started, never when it is restarted."""

    @abstractmethod
    def discover(self, now_ms: int) -> tuple[Split, ...]:
        """Splits that are new since the last call."""

    @abstractmethod
    def snapshot(self) -> bytes:
        """Everything discovered so far, in the connector's own document."""

    def forget(self, below: int) -> None:
        """All splits with numbers under ``below`` are done in a completed checkpoint, so in every later one too, and their output is
        visible: snapshots taken from now on need not name them. Numbering goes on as if they were there, and none is discovered again.
        May be told again; whoever acknowledges to the world outside does it here.
        Sources that discover without end need it: their memory follows what is unread, not what was ever read."""

    def begin(self, now_ms: int) -> bytes:
        """Decides where the source begins, without taking anything up. The document is for ``restore``, of this enumerator or another
        one; it is stored before anything is read, and whoever starts from the same checkpoint takes it over. Called if ``asked``."""
        raise NotImplementedError(f"{type(self).__name__} begins at the same place at any time")

    def learn_done(self, is_done: Callable[[int], bool]) -> None:
        """Called right before ``restore``. ``is_done``: whether the split of that number has been read to its end. One that
        is neither done nor open was on its way to a reader, and will be given to one."""

    @abstractmethod
    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        """Returns all splits of ``state`` and ``known`` (open ones from reader snapshots); these are not discovered again.

        An open split may come back with another payload (another end, for instance): readers get that one.

        Splits that were forgotten before ``state`` was taken are not among them; the numbers go on after them.
        """

    @property
    @abstractmethod
    def bounded(self) -> bool:
        """Discovery will never bring anything new (``availableNow`` after its first round, or a finite source)."""

    def close(self) -> None:
        """The attempt is over: nothing is called any more. Another enumerator of the same source may be made next."""
