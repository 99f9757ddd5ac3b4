"""What the driver grants, in random histories of looks, reads and crashes, against the looks alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.lateness import NEVER, Looks

from tidegate.checkpoint.cohorts import Cohorts, restored_cohorts
from tidegate.checkpoint.intervals import Intervals, add_numbers, contains
from tidegate.model.elements import WATERMARK_MIN_US
from tidegate.model.snapshot import FinishedSplit, Split

DELAY_US = 2_000_000
SECOND_US = 1_000_000
READERS = 5
quick = settings(max_examples=400, deadline=None)


@dataclass(frozen=True)
class Cut:
    """What a checkpoint has."""

    known: int = 0
    done: Intervals = ()
    read_us: int = WATERMARK_MIN_US
    watermark_us: int = WATERMARK_MIN_US
    returning: int = 0


@dataclass
class World:
    """Splits appear; the driver looks for them; readers put their rows out and say later, more than once and in any order, that they have;
    checkpoints are taken and restored."""

    random: Random
    times: list[list[int]] = field(default_factory=list)
    """Event times of the rows of each split that has appeared."""
    limit: int = 0
    told: float = 0.0
    """How often the enumerator knows the smallest time of a split."""
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        random = self.random
        self.limit = random.choice([0, 0, 1, 2, 3])
        self.told = random.choice([0.0, 0.0, 0.5, 1.0])
        self.looks = Looks(DELAY_US, statistics=self.told > 0)
        self.cohorts = Cohorts(delay_us=DELAY_US)
        self.known = 0
        self.out: set[int] = set()
        """Splits whose rows are all in a channel."""
        self.reports: list[int] = []
        self.watermark_us = WATERMARK_MIN_US
        """Of the operators, at most."""
        self.cut = Cut()
        self.begun: tuple[int, frozenset[int], int] | None = None
        """A checkpoint is under way: its barrier has come to this reader, which had put these splits out, behind this watermark."""
        self.returning = 0
        """Readers are given those below this number whatever the cohorts say: they were open when the checkpoint was taken."""
        self.first_look = True

    def appear(self) -> None:
        random = self.random
        base = random.choice([0, len(self.times) * 10 * SECOND_US, random.randrange(60 * SECOND_US)])
        step = random.choice([300, 1_000, SECOND_US, SECOND_US])
        self.times.append([base + random.randrange(20) * step for _ in range(random.randrange(5))])

    def look(self) -> None:
        told = range(self.known if not self.first_look else 0, len(self.times))
        fresh = [number for number in told if not contains(self.cut.done, number)] if self.first_look else list(told)
        found = len(self.times) > self.known
        splits = tuple(self._split(number) for number in fresh)
        self.looks.look(range(self.known, len(self.times)), [one.number for one in splits if one.cut], found=found)
        self.seen["empty looks"] += not found
        self.known = len(self.times)
        after = self.cohorts.looked(splits, found=found)
        self.first_look = False
        self._granted(after)

    def read(self) -> None:
        ready = self._ready()
        self.seen["given early"] += bool(ready) and ready[-1] >= self.cohorts.assignable
        if ready and not self.first_look:
            number = self.random.choice(ready[:6])
            self.out.add(number)
            self.reports.append(number)

    def report(self) -> None:
        if self.reports:
            number = self.random.choice(self.reports)
            if self.random.random() < 0.8:
                self.reports.remove(number)
            else:
                self.seen["told twice"] += 1
            self._granted(self.cohorts.finished((self._finished(number),)))

    def burst(self) -> None:
        """Longer than the time between two looks."""
        for _ in range(self.random.randint(2, 6)):
            self.appear()
            self.look()
            if self.random.random() < 0.7:
                self.catch_up()

    def catch_up(self) -> None:
        """Everything that readers are given is read, and told."""
        for _ in range(20):
            self.read()
            self.report()

    def _ready(self) -> list[int]:
        return [n for n in range(min(self.known, max(self.cohorts.assignable, self.returning))) if n not in self.out]

    def checkpoint(self) -> None:
        """The barrier comes to one reader first, and to the others with the next step of this kind."""
        random = self.random
        if self.begun is None:
            slot = random.randrange(READERS)
            self.begun = slot, frozenset(n for n in self.out if n % READERS == slot), self.watermark_us
            return
        if random.random() < 0.5:
            self.catch_up()
        (slot, early, watermark_us), self.begun = self.begun, None
        finished = {*early, *(n for n in self.out if n % READERS != slot)}
        done = add_numbers(self.cut.done, finished)
        read_us = max([self.cut.read_us, *(self._finished(number).largest_us for number in finished)])
        opened = [number for number in self._ready() if number % READERS != slot]
        returning = random.choice(opened) + 1 if opened else 0
        self.cut = Cut(self.known, done, read_us, watermark_us, returning)
        self.seen["checkpoints"] += 1

    def crash(self) -> None:
        cut, self.begun = self.cut, None
        self.known, self.watermark_us, self.returning = cut.known, cut.watermark_us, cut.returning
        self.cohorts = restored_cohorts(DELAY_US, cut.done, cut.read_us)
        self.out = {number for number in range(len(self.times)) if contains(cut.done, number)}
        self.reports = []
        self.first_look = True
        self.seen["crashes"] += 1

    def rest(self) -> None:
        """Nothing appears any more: everything is found, read and told."""
        for _ in range(6):
            self.look()
        while len(self.out) < len(self.times) or self.reports:
            before = len(self.out), len(self.reports), self.cohorts
            self.read()
            self.report()
            assert (len(self.out), len(self.reports), self.cohorts) != before or self.reports, "nothing is given out"
        for _ in range(6):
            self.look()

    def _granted(self, after: Cohorts) -> None:
        assert after.granted_us >= self.cohorts.granted_us, "time went back"
        self.seen["grants"] += after.granted_us > self.cohorts.granted_us
        self.cohorts = after
        self.watermark_us = max(self.watermark_us, after.granted_us)
        self._judge()

    def _judge(self) -> None:
        """Rows that are known and not out come behind the watermark."""
        allowed = self.looks.allowed_us(self.times)
        for number in range(self.known):
            late = [at for at in self.times[number] if at <= self.watermark_us] if number not in self.out else []
            assert all(at <= allowed[number] for at in late), (
                f"rows {late} of split {number} are late at {self.watermark_us}: no more than {allowed[number]} may judge them"
            )
            self.seen["late rows"] += len(late)

    def _split(self, number: int) -> Split:
        # Whether it is known depends on the split alone: the enumerator says the same after a restore.
        knows = Random(number * 7_919 + len(self.times[0])).random() < self.told and self.times[number]
        return Split(
            number=number,
            payload=b"",
            earliest_us=min(self.times[number]) if knows else None,
            cut=bool(self.limit) and number > 0 and number % self.limit == 0,
        )

    def _finished(self, number: int) -> FinishedSplit:
        return FinishedSplit(number, max(self.times[number], default=WATERMARK_MIN_US))


def live(seed: int) -> World:
    random = Random(seed)
    world = World(random)
    world.appear()
    weights = {
        world.look: random.choice([1, 3]),
        world.appear: random.choice([1, 3]),
        world.burst: random.choice([0, 0, 0.2]),
        world.read: 3,
        world.report: 3,
        world.catch_up: random.choice([0, 1]),
        world.checkpoint: 1.4,
        world.crash: random.choice([0, 0.3]),
    }
    for _ in range(random.randrange(10, 100)):
        (step,) = random.choices(list(weights), list(weights.values()))
        step()
    world.rest()
    return world


@quick
@given(seed=st.integers(0, 1 << 32))
def test_no_row_is_late_but_for_rows_that_certainly_came_before_it_and_time_arrives(seed: int) -> None:
    """T69 T70: what is granted judges no row of a split that is not out yet by a row of its own cohort; when the input rests, time stands
    where the largest event time says."""
    world = live(seed)
    largest = max((at for rows in world.times for at in rows), default=None)
    wanted = NEVER if largest is None else world.looks.watermark_us(largest)
    assert max(world.cohorts.granted_us, NEVER) == wanted
    assert not world.cohorts.unread


def test_the_histories_have_what_they_are_to_be_judged_by() -> None:
    seen: Counter[str] = Counter()
    for seed in range(200):
        seen += live(seed).seen
    for what in ("grants", "late rows", "empty looks", "told twice", "checkpoints", "crashes", "given early"):
        assert seen[what] > 20, (what, seen)
