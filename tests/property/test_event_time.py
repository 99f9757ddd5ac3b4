"""Endless runs over splits that appear at any time, with crashes and rescales on the way: a row is missing only if it may be late, and
when the input rests, everything that is over is out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import permutations
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property import pipelines as p
from tests.property.feeds import Feed, Row
from tests.property.lateness import NEVER
from tests.property.test_slots import MAX_PARALLELISM, skewed, tight

from tidegate.model.ids import OperatorId
from tidegate.plan.keyed import Deduplicate
from tidegate.plan.relational import EventTimeKey, Sink, Union
from tidegate.plan.stages import build_graph
from tidegate.plan.watermarks import push_watermarks_down
from tidegate.testing.scripted import ScriptedConnectors, ScriptedSink
from tidegate.testing.slots import SlotHarness, Snapshot

SINK = OperatorId("sink-0")
NEVER_IDLE_MS = 1 << 40
ANOTHER_FEED = 1_000_000


def windows() -> Sink:
    """Each row counted by itself, when its window is over."""
    return p.sink(p.count_and_sum(p.watermark(p.scan(0, "#1"), "ts#1"), ("w#1", "v#1"), "k#1", number=0, window="w#1"))


def windows_of_two() -> Sink:
    """The same of two streams that meet."""
    streams = p.watermark(p.scan(0, "#1"), "ts#1"), p.watermark(p.scan(1, "#2"), "ts#2", 1)
    both = Union(schema=p.schema("#3"), inputs=streams)
    return p.sink(p.count_and_sum(both, ("w#3", "v#3"), "k#3", number=0, window="w#3"))


def windows_of_one_of_two() -> Sink:
    """The same of two sources that make up one stream."""
    both = Union(schema=p.schema("#3"), inputs=(p.scan(0, "#1"), p.scan(1, "#2")))
    one = push_watermarks_down(p.watermark(both, "ts#3"))
    return p.sink(p.count_and_sum(one, ("w#3", "v#3"), "k#3", number=0, window="w#3"))


def distinct() -> Sink:
    """Each row at once, unless it is late."""
    rows = p.watermark(p.scan(0, "#1"), "ts#1")
    keys, time = ("v#1", "ts#1"), EventTimeKey("ts#1", None)
    return p.sink(Deduplicate(id=OperatorId("dedup-0"), keys=keys, event_time=time, schema=rows.schema, inputs=(rows,)))


KINDS: tuple[tuple[Callable[[], Sink], tuple[bool, ...]], ...] = (
    (windows, (False,)),
    (windows, (True,)),
    (distinct, (False,)),
    (distinct, (True,)),
    (windows_of_two, (False, False)),
    (windows_of_two, (False, True)),
    (windows_of_two, (True, True)),
    (windows_of_one_of_two, (False, False)),
)


class Run:
    """``logs``: for each source, whether its splits are logs."""

    def __init__(self, seed: int, plan: Callable[[], Sink], logs: tuple[bool, ...]) -> None:
        self.random = random = Random(seed)
        self.plan = plan
        self.feeds = [
            Feed(random, f"#{number + 1}", log, number * ANOTHER_FEED, nulls=plan is not distinct)
            for number, log in enumerate(logs)
        ]
        if plan is windows_of_one_of_two:
            for one, other in permutations(self.feeds):
                one.beside.append(other)
        self.sink = ScriptedSink()
        # A log that is alone in its stream is late for nobody, however long it has been idle.
        may_rest = all(feed.fixed or not feed.log for feed in self.feeds)
        self.config = msgspec.structs.replace(
            tight(random),
            bounded=False,
            drain=False,
            discovery_interval_ms=100,
            idle_timeout_ms=random.choice([50, NEVER_IDLE_MS]) if may_rest else NEVER_IDLE_MS,
        )
        self.seen: Counter[str] = Counter()
        self.late_rows = 0

    def live(self) -> None:
        """Up to four starts, the last of which comes to rest."""
        random = self.random
        store: dict[str, bytes] = {}
        snapshot: Snapshot | None = None
        deaths = random.choice([0, 0, 1, 2, 3])
        for attempt in range(1, deaths + 2):
            harness = self._start(attempt, snapshot, store)
            for _ in range(random.randint(1, 6)):
                feed = random.choice(self.feeds)
                for _ in range(random.choice([0, 1, 1, 2, 5])):
                    feed.more()
                    harness.advance(random.choice([0, 0, 3, 20]))
                harness.advance(random.choice([5, 60, 300]))
                if random.random() < 0.5:
                    harness.trigger(alongside=random.random() < 0.5)
            if attempt > deaths:
                harness.settle()
                harness.checkpoint()
                metrics = [one for runtime in harness.slots.values() for one in runtime.progress().metrics]
                self.late_rows = sum(one.late_rows for one in metrics)
            self._hear(harness)
            snapshot = harness.completed[-1] if harness.completed else None
            self.seen["restores"] += snapshot is not None and attempt <= deaths

    def _start(self, attempt: int, snapshot: Snapshot | None, store: dict[str, bytes]) -> SlotHarness:
        random = self.random
        sources = {OperatorId(f"source-{number}"): feed.source for number, feed in enumerate(self.feeds)}
        return SlotHarness(
            build_graph(self.plan(), parallelism=random.randint(1, 4), max_parallelism=MAX_PARALLELISM),
            ScriptedConnectors(sources, {SINK: self.sink}),
            self.config,
            seed=random.randrange(1 << 32),
            attempt=attempt,
            restore=snapshot,
            store=store,
            step_ms=random.choice([0.0, 1.0, 5.0, 20.0]),
            channel_ready=skewed(random),
        )

    def _hear(self, harness: SlotHarness) -> None:
        """What the looks of one start have found."""
        heard = sum(len(feed.looks.at) for feed in self.feeds)
        for at, event in enumerate(harness.looks, heard):
            looks = self.feeds[int(event.operator.removeprefix("source-"))].looks
            numbers = [split.number for split in event.splits]
            looks.look(numbers, [split.number for split in event.splits if split.cut], found=event.found, at=at)
            self.seen["looks that found nothing"] += not event.found

    def judge(self) -> None:
        place = [name.split("#")[0] for name, _ in self.plan().columns].index("v")
        out = Counter(row[place] for row in self.sink.rows())
        assert not out or max(out.values()) == 1, "twice"
        reached = [feed.reached_us() for feed in self.feeds]
        least_us, most_us = min(least for least, _ in reached), min(most for _, most in reached)
        rows = [row for feed in self.feeds for row in feed.rows()]
        missing = [row for row in rows if self._shown_us(row) <= least_us and row.number not in out]
        for row in missing:
            deadline_us = row.at_us if self.plan is distinct else row.window_us
            assert deadline_us is not None and deadline_us <= row.allowed_us, f"{row} is missing; time is {least_us}"
        for row in rows:
            assert self._shown_us(row) <= most_us or row.number not in out, f"{row} is out; time is {most_us}"
        if self.plan is distinct:
            assert self.late_rows == len(missing)
        self.seen["rows"] += len(rows)
        self.seen["late rows"] += self.late_rows
        for feed in self.feeds:
            self.seen += feed.seen

    def _shown_us(self, row: Row) -> int:
        return NEVER if self.plan is distinct else row.window_us


@pytest.mark.parametrize(("plan", "logs"), KINDS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_only_rows_that_may_be_late_are_missing_and_what_is_over_is_out(
    plan: Callable[[], Sink], logs: tuple[bool, ...], seed: int
) -> None:
    """T69 T70: order inside a whole split counts for nothing, nor does which one is read first; order inside a log does."""
    run = Run(seed, plan, logs)
    run.live()
    run.judge()


def test_the_runs_have_what_they_are_to_be_judged_by() -> None:
    seen: Counter[str] = Counter()
    for seed in range(16):
        run = Run(seed, *KINDS[seed % len(KINDS)])
        run.live()
        run.judge()
        seen += run.seen
    for what in ("rows", "late rows", "looks that found nothing", "restores", "splits without any time"):
        assert seen[what] > 5, (what, seen)
