"""The two ends of a source in event time: an enumerator that looks, readers that hand out. Both write down what they did."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import polars as pl

from tidegate.eventtime.batches import Batches, Limits
from tidegate.model.snapshot import Split
from tidegate.plan.relational import Scan
from tidegate.ports.source import SourceConnector, SplitEnumerator, SplitReader
from tidegate.testing.simulation.chronicle import Chronicle, Emptiness
from tidegate.testing.simulation.sources import Clock
from tidegate.testing.simulation.timed import TimedScript, timed_rows


class KnownFiles(msgspec.Struct, frozen=True, array_like=True):
    """``splits[n]`` has the number ``first + n``."""

    first: int
    splits: tuple[int, ...]
    cuts: tuple[int, ...] = ()
    """Numbers of those that begin a batch."""


class TimedEnumerator(SplitEnumerator):
    """Finds files as they appear, in the order of their modification times, or of their statistics."""

    def __init__(self, script: TimedScript, chronicle: Chronicle, attempt: int, chance: random.Random) -> None:
        self._script = script
        self._chronicle = chronicle
        self._attempt = attempt
        self._chance = chance
        self._first = 0
        self._splits: list[int] = []
        self._ever: set[int] = set()
        self._looked = False
        self._batches = Batches(Limits(files=script.limit))
        self._cuts: set[int] = set()
        self._is_done: Callable[[int], bool] = frozenset[int]().__contains__
        self.ordered = self.endless = script.ordered

    def discover(self, now_ms: int, began_ms: int | None = None) -> tuple[Split, ...]:
        """``began_ms``: a long listing has seen all that was there then, and some of what came meanwhile."""
        began_ms = now_ms if began_ms is None else began_ms
        script = self._script
        fresh = [
            n
            for n, one in enumerate(script.splits)
            if n not in self._ever
            and (one.appears_ms <= began_ms or (one.appears_ms <= now_ms and self._chance.random() < 0.5))
        ]
        if script.limit or any(script.splits[n].earliest_us is None for n in fresh):
            fresh.sort(key=lambda n: (script.splits[n].appears_ms, n))
        else:
            fresh.sort(key=lambda n: (script.splits[n].earliest_us or 0, n))
        if not fresh:
            self._batches.rest()
        self._cuts.update(number for number, _ in enumerate(fresh, self._stop) if self._batches.begins(1))
        self._splits += fresh
        self._ever.update(fresh)
        self._looked = True
        return tuple(map(self._split, range(self._stop - len(fresh), self._stop)))

    def note(self, now_ms: int, *, found: bool) -> None:
        """The last look is told to the coordinator."""
        self._chronicle.looked(self._script.source, self._attempt, self._numbers(), now_ms, found=found)

    @property
    def _stop(self) -> int:
        return self._first + len(self._splits)

    def _numbers(self) -> dict[int, int]:
        return {split: self._first + n for n, split in enumerate(self._splits)}

    def _split(self, number: int) -> Split:
        index = self._splits[number - self._first]
        return Split(
            number=number,
            payload=str(index).encode(),
            earliest_us=self._script.splits[index].earliest_us,
            cut=number in self._cuts,
        )

    def forget(self, below: int) -> None:
        gone = max(min(below, self._stop) - self._first, 0)
        self._first, self._splits = self._first + gone, self._splits[gone:]

    def snapshot(self) -> bytes:
        # What was forgotten is told from the modification times in a real source. Here all splits ever found say it.
        gone = sorted(self._ever - set(self._splits))
        return msgspec.msgpack.encode((KnownFiles(self._first, tuple(self._splits), tuple(sorted(self._cuts))), gone))

    def learn_done(self, is_done: Callable[[int], bool]) -> None:
        self._is_done = is_done

    def restore(self, state: bytes, known: tuple[Split, ...]) -> tuple[Split, ...]:
        if not state:
            return ()
        files, gone = msgspec.msgpack.decode(state, type=tuple[KnownFiles, tuple[int, ...]])
        self._first, self._splits = files.first, list(files.splits)
        self._ever = {*files.splits, *gone}
        missing = {one.number for one in known} - set(range(self._first, self._stop))
        if missing:
            raise ValueError(f"splits {sorted(missing)} are open and not known")
        for number in range(self._first, self._stop):
            if self._batches.resume(1, cut=number in files.cuts, done=self._is_done(number)):
                self._cuts.add(number)
        return tuple(map(self._split, range(self._first, self._stop)))

    @property
    def bounded(self) -> bool:
        return self._script.bounded and self._looked


@dataclass(frozen=True, slots=True)
class _World:
    """What readers see of the world."""

    scan: Scan
    script: TimedScript
    chronicle: Chronicle
    clock: Clock
    hurry: Callable[[], bool]
    slot: str


class TimedSource(SourceConnector):
    def __init__(
        self, scan: Scan, script: TimedScript, chronicle: Chronicle, clock: Clock, hurry: Callable[[], bool], slot: str
    ) -> None:
        self._world = _World(scan, script, chronicle, clock, hurry, slot)

    def open(self, split: Split, position: bytes | None) -> SplitReader:
        world, number = self._world, int(split.payload)
        world.chronicle.opened(world.script.source, number, world.clock())
        start = msgspec.msgpack.decode(position, type=int) if position else 0
        return (LogReader if world.script.ordered else FileReader)(world, number, start)


class _Reader(SplitReader):
    """Position and rows; what both kinds have in common."""

    def __init__(self, world: _World, split: int, start: int) -> None:
        scan = world.scan
        names = [field.name for field in scan.schema]
        rows = timed_rows(world.script, split)
        self._rows = rows.select(scan.columns).rename(dict(zip(scan.columns, names, strict=True)))
        self._script = world.script
        self._split = split
        self._next = start
        self._world = world
        self._chronicle = world.chronicle
        self._clock = world.clock

    def _hand_out(self, stop: int) -> pl.DataFrame:
        rows = self._rows.slice(self._next, stop - self._next)
        handed = range(self._next, stop)
        self._chronicle.handed(self._script.source, self._split, handed, self._clock(), self._world.slot)
        self._next = stop
        return rows

    @property
    def position(self) -> bytes:
        return msgspec.msgpack.encode(self._next)

    def describe(self) -> str:
        return f"split {self._split} row {self._next}"


class FileReader(_Reader):
    """All rows are there; a slow file hands them out in portions."""

    def __init__(self, world: _World, split: int, start: int) -> None:
        super().__init__(world, split, start)
        self._due_ms = world.clock()

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        del now_ms  # A skewed clock changes nothing about what is there.
        if self.finished or (self._clock() < self._due_ms and not self._world.hurry()):
            return None
        self._due_ms = self._clock() + self._script.pace_ms
        rows = self._hand_out(min(self._next + rows_max, self._rows.height))
        if self.finished:
            self._chronicle.on_read()
        return rows

    @property
    def finished(self) -> bool:
        return self._next >= self._rows.height


class LogReader(_Reader):
    """Asks its broker, which answers after a while, or not at all: with rows, or that nothing is behind the position."""

    def __init__(self, world: _World, split: int, start: int) -> None:
        super().__init__(world, split, start)
        self._asked_ms: int | None = None
        self._emptiness: Emptiness | None = None
        self._known = start
        """The log reaches at least up to here."""
        self._empty_answers = 0

    def read(self, rows_max: int, now_ms: int) -> pl.DataFrame | None:
        del now_ms
        at_ms = self._clock()
        if self._known <= self._next:
            self._known = max(self._known, self._fetch(at_ms))
        if self._known <= self._next:
            return None
        rows = self._hand_out(min(self._next + rows_max, self._known))
        if self._emptiness is not None:
            self._emptiness.until_ms, self._emptiness = at_ms, None
        return rows

    def _fetch(self, at_ms: int) -> int:
        """How far the log is known to reach. A request waits for its answer, and for its broker to speak again."""
        if self._asked_ms is None:
            self._asked_ms = at_ms
        answered_ms = self._asked_ms + self._script.latency_ms
        one = self._script.splits[self._split]
        silence = next((until for since, until in one.unanswered if since <= answered_ms < until), None)
        if silence is not None:
            answered_ms = silence
        if at_ms < answered_ms:
            return self._next
        self._asked_ms = None
        if (end := sum(ready_ms <= answered_ms for ready_ms in one.ready_ms)) <= self._next:
            self._empty_answers += 1
            self._emptiness = self._chronicle.answered_empty(
                self._script.source, self._split, self._emptiness, self._next, at_ms
            )
        return end

    @property
    def finished(self) -> bool:
        return False

    @property
    def empty_answers(self) -> int:
        return self._empty_answers

    @property
    def awaits_rows(self) -> bool:
        """Fetched and not handed out yet."""
        return self._known > self._next
