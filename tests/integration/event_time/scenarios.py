"""The scenarios: seeded, the same rows for both engines. Each is one sentence about which rows may be late."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from random import Random

from tests.integration.event_time.queries import COUNTS, DISTINCT, FILTERED, JOINED, SESSIONS, UNITED, WINDOWS, Query
from tests.integration.event_time.scenario import SECOND_US, Burst, File, Row, Scenario

START_US = 1_772_409_540_000_000
"""2026-03-01 23:59: a minute before midnight."""
Make = Callable[[Random], Scenario]
SCENARIOS: dict[str, Make] = {}


def scenario(name: str, seed: int) -> Scenario:
    return SCENARIOS[name](Random(f"{name} {seed}"))


class Rows:
    """Rows with new numbers, at random µs."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._ids = itertools.count()

    def at(self, second: float, value: int = 0) -> Row:
        return Row(next(self._ids), START_US + round(second * SECOND_US), value)

    def between(self, low_s: float, high_s: float, count: int) -> tuple[Row, ...]:
        """In random order; one in fifty has no time, one in twenty stands at a full second, where others stand too."""
        return tuple(self._any(low_s, high_s) for _ in range(count))

    def _any(self, low_s: float, high_s: float) -> Row:
        second = self.random.uniform(low_s, high_s)
        match self.random.randrange(100):
            case 0 | 1:
                return Row(next(self._ids), None)
            case 2 | 3 | 4 | 5 | 6:
                return self.at(int(second))
            case _:
                return self.at(second)

    def files(self, stream: str, low_s: float, high_s: float, *, count: int, rows: int) -> tuple[File, ...]:
        """All of one time range."""
        return tuple(File(stream, self.between(low_s, high_s, rows)) for _ in range(count))


def _add(name: str, make: Make) -> None:
    assert name not in SCENARIOS, f"two scenarios are called {name}"
    SCENARIOS[name] = make


def _one_file(format: str, trigger: str, query: Query) -> Make:
    def make(random: Random) -> Scenario:
        files = Rows(random).files("a", 0, 600, count=1, rows=3_000)
        return Scenario(query, (Burst(files),), format, trigger)  # type: ignore[arg-type]

    return make


def _many_files(format: str, trigger: str, query: Query) -> Make:
    def make(random: Random) -> Scenario:
        files = Rows(random).files("a", 0, 600, count=64, rows=40)
        return Scenario(query, (Burst(files),), format, trigger)  # type: ignore[arg-type]

    return make


for _format, _queries in (("parquet", (COUNTS, WINDOWS)), ("csv", (WINDOWS, DISTINCT)), ("json", (SESSIONS, COUNTS))):
    for _trigger in ("endless", "available now", "drained"):
        _add(f"one {_format} file in random order, {_trigger}", _one_file(_format, _trigger, _queries[0]))
        _add(f"64 {_format} files in random order, {_trigger}", _many_files(_format, _trigger, _queries[1]))


def part_files(random: Random) -> Scenario:
    """T69, T70: an empty directory is watched; a job moves its part files in, one after the other."""
    files = Rows(random).files("a", 0, 600, count=16, rows=200)
    return Scenario(COUNTS, (Burst(()), Burst(files, one_by_one=True)))


def backlog_of_part_files(random: Random) -> Scenario:
    """T69."""
    return Scenario(WINDOWS, (Burst(Rows(random).files("a", 0, 600, count=16, rows=200)),))


def one_by_one(random: Random) -> Scenario:
    """Each file reaches back into the one before, less than the delay; rows inside are in random order."""
    rows = Rows(random)
    bursts = [Burst(rows.files("a", 40 * n - (9 if n else 0), 40 * n + 40, count=1, rows=150)) for n in range(5)]
    return Scenario(WINDOWS, tuple(bursts))


def one_by_one_deduplicated(random: Random) -> Scenario:
    rows = Rows(random)
    bursts = [Burst(rows.files("a", 40 * n - (9 if n else 0), 40 * n + 40, count=1, rows=150)) for n in range(5)]
    return Scenario(DISTINCT, tuple(bursts))


def an_old_file_later(random: Random) -> Scenario:
    """Its rows are late for Spark: the files before it were read and looked behind."""
    rows = Rows(random)
    new, old, last = ((200, 300), (0, 300), (300, 400))
    return Scenario(
        WINDOWS, tuple(Burst(rows.files("a", *span, count=2, rows=150)) for span in (new, old, last)), drops=True
    )


def late_rows_of_large_groups(random: Random) -> Scenario:
    """Several late rows of one group and one batch: they are counted in rows."""
    rows = Rows(random)
    new, old = ((200, 300), (0, 300))
    return Scenario(COUNTS, tuple(Burst(rows.files("a", *span, count=2, rows=150)) for span in (new, old)), drops=True)


def late_for_a_deduplication(random: Random) -> Scenario:
    rows = Rows(random)
    new, old = ((200, 300), (0, 300))
    return Scenario(
        DISTINCT, tuple(Burst(rows.files("a", *span, count=2, rows=150)) for span in (new, old)), drops=True
    )


def late_for_a_session(random: Random) -> Scenario:
    rows = Rows(random)
    new, old = ((200, 300), (0, 300))
    return Scenario(
        SESSIONS, tuple(Burst(rows.files("a", *span, count=2, rows=150)) for span in (new, old)), drops=True
    )


def _bursts(random: Random, *, after_silence: bool) -> Iterator[Burst]:
    rows = Rows(random)
    for number in range(3):
        files = rows.files("a", 100 * number - (9 if number else 0), 100 * number + 100, count=4, rows=60)
        yield Burst(files, after_silence=after_silence and number > 0)


def bursts(random: Random) -> Scenario:
    return Scenario(WINDOWS, tuple(_bursts(random, after_silence=False)))


def bursts_after_silence(random: Random) -> Scenario:
    """T70: idle readers must not let the first file of a burst drive time past the others."""
    return Scenario(WINDOWS, tuple(_bursts(random, after_silence=True)))


def one_file_each_after_silence(random: Random) -> Scenario:
    """T70: two files of one range, the newer one first."""
    rows = Rows(random)
    bursts = [
        Burst(
            (File("a", rows.between(60 * n + 30, 60 * n + 60, 80)), File("a", rows.between(60 * n, 60 * n + 30, 80))),
            after_silence=n > 0,
        )
        for n in range(4)
    ]
    return Scenario(DISTINCT, tuple(bursts))


def several_available_now(random: Random) -> Scenario:
    """Each run goes on from the watermark of the one before."""
    return Scenario(WINDOWS, tuple(_bursts(random, after_silence=False)), trigger="available now")


def an_old_file_for_the_next_available_now(random: Random) -> Scenario:
    rows = Rows(random)
    new, old = ((200, 300), (0, 300))
    bursts = tuple(Burst(rows.files("a", *span, count=2, rows=150)) for span in (new, old))
    return Scenario(DISTINCT, bursts, trigger="available now", drops=True)


def _one_stream_falls_quiet(random: Random, query: Query) -> Scenario:
    """``a`` goes on for longer than ``idleTimeout``, then ``b`` goes on from where it was: nothing of it is late."""
    rows = Rows(random)

    def both(low_s: float, high_s: float) -> tuple[File, ...]:
        made = rows.between(low_s, high_s, 60)
        # The same numbers on both sides, a few seconds apart: what a join finds.
        near = (Row(row.id, row.time_us + 1_500_000 if row.time_us else None) for row in made)
        return File("a", made), File("b", tuple(near))

    ahead = [rows.files("a", 60 * n, 60 * n + 60, count=1, rows=60) for n in (1, 2, 3)]
    early_a, early_b = both(0, 60)
    pairs_a, pairs_b = both(60, 120)
    bursts = (
        Burst((early_a, early_b)),
        Burst((*ahead[0], pairs_a)),
        *(Burst(files, after_silence=True) for files in ahead[1:]),
        Burst((pairs_b,), after_silence=True),
        Burst(rows.files("b", 120, 240, count=1, rows=60)),
    )
    return Scenario(query, bursts)


def a_quiet_stream_in_a_union(random: Random) -> Scenario:
    return _one_stream_falls_quiet(random, UNITED)


def a_quiet_stream_in_a_join(random: Random) -> Scenario:
    return _one_stream_falls_quiet(random, JOINED)


def _one_file_per_trigger(random: Random, trigger: str, query: Query) -> Scenario:
    """Spark judges by the watermark of the batch before last: the second file is kept, the third and fourth are not."""
    rows = Rows(random)
    files = tuple(File("a", tuple(rows.at(second, value=0) for _ in range(3))) for second in (100, 50, 50, 50))
    return Scenario(query, (Burst(files),), trigger=trigger, per_trigger=1, drops=True)  # type: ignore[arg-type]


def one_file_per_trigger(random: Random) -> Scenario:
    return _one_file_per_trigger(random, "endless", DISTINCT)


def one_file_per_trigger_in_windows(random: Random) -> Scenario:
    return _one_file_per_trigger(random, "endless", WINDOWS)


def one_file_per_trigger_available_now(random: Random) -> Scenario:
    return _one_file_per_trigger(random, "available now", DISTINCT)


def files_in_order_three_per_trigger(random: Random) -> Scenario:
    """A limit alone makes nothing late where files follow each other in time."""
    rows = Rows(random)
    files = [file for n in range(12) for file in rows.files("a", 15 * n, 15 * n + 18, count=1, rows=40)]
    return Scenario(WINDOWS, (Burst(tuple(files)),), per_trigger=3)


def _bursts_of_batches(random: Random, *sizes: int) -> Iterator[Burst]:
    """The files of a burst are of one time range."""
    rows = Rows(random)
    for number, size in enumerate(sizes):
        yield Burst(rows.files("a", 100 * number - (9 if number else 0), 100 * number + 100, count=size, rows=50))


def bursts_two_files_per_trigger(random: Random) -> Scenario:
    """A burst that ends in the middle of a batch: the next one is cut from its own first file."""
    return Scenario(DISTINCT, tuple(_bursts_of_batches(random, 3, 4, 1, 4)), per_trigger=2)


def bursts_three_files_per_trigger(random: Random) -> Scenario:
    return Scenario(COUNTS, tuple(_bursts_of_batches(random, 4, 6, 2, 6)), per_trigger=3)


def restarts_between_bursts_two_files_per_trigger(random: Random) -> Scenario:
    bursts = tuple(_bursts_of_batches(random, 3, 4, 1, 4))
    return Scenario(DISTINCT, bursts, trigger="available now", per_trigger=2)


def bursts_with_a_limit_of_bytes(random: Random) -> Scenario:
    """Two files fit, and a row is about 60 bytes."""
    return Scenario(DISTINCT, tuple(_bursts_of_batches(random, 3, 4, 1, 4)), "json", bytes_per_trigger=50 * 150)


def a_future_row_that_is_filtered_away(random: Random) -> Scenario:
    """It tells no time: neither rows of its own file nor later ones are late for it."""
    rows = Rows(random)
    bursts = [
        Burst(
            (
                File(
                    "a",
                    (
                        *rows.between(40 * n, 40 * n + 40, 80),
                        rows.at(100_000, value=-1),
                        *rows.between(40 * n, 40 * n + 40, 80),
                    ),
                ),
            )
        )
        for n in range(3)
    ]
    return Scenario(FILTERED, tuple(bursts))


def watermarks_in_milliseconds(random: Random) -> Scenario:
    """The largest time is 20.000300 s: the watermark is 10.000 s, so that 10.000200 s is after it and 10 s is not."""
    rows = Rows(random)
    first = Burst((File("a", (rows.at(20.0003), rows.at(19))),))
    second = Burst((File("a", (rows.at(10.0002), rows.at(10.000001), rows.at(10.0))),), after_silence=True)
    return Scenario(DISTINCT, (first, second), drops=True)


for _make in (
    part_files, backlog_of_part_files, one_by_one, one_by_one_deduplicated, an_old_file_later, late_rows_of_large_groups,
    late_for_a_deduplication, late_for_a_session, bursts, bursts_after_silence, one_file_each_after_silence, several_available_now,
    an_old_file_for_the_next_available_now, a_quiet_stream_in_a_union, a_quiet_stream_in_a_join, one_file_per_trigger,
    one_file_per_trigger_in_windows, one_file_per_trigger_available_now, files_in_order_three_per_trigger,
    bursts_two_files_per_trigger, bursts_three_files_per_trigger, restarts_between_bursts_two_files_per_trigger, bursts_with_a_limit_of_bytes,
    a_future_row_that_is_filtered_away, watermarks_in_milliseconds,
):  # fmt: skip
    _add(_make.__name__.replace("_", " "), _make)
