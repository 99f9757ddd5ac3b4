"""Who reads which split, in random histories: real readers and the real assigner, with a network between them that loses, repeats and delays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

import msgspec
import polars as pl
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.property import pipelines as p
from tests.unit.checkpoint.scenario import PLAN, SOURCE

from tidegate.checkpoint import granting
from tidegate.checkpoint.intervals import contains
from tidegate.checkpoint.manifest import SourceState
from tidegate.checkpoint.sources import SplitAssigner, fresh, restored
from tidegate.model.config import QueryConfig
from tidegate.model.elements import Batch
from tidegate.model.ids import Attempt, CheckpointId, SlotIndex
from tidegate.model.messages import AssignSplits, SplitsWanted
from tidegate.model.snapshot import KeyGroupRange, SourceProgress, Split
from tidegate.operators.protocol import OperatorContext, Restored
from tidegate.operators.source import SourceOperator
from tidegate.testing.looks import Watch
from tidegate.testing.scripted import ScriptedEnumerator, ScriptedReader, ScriptedSource, ScriptedSplit

Row = tuple[int, int]
"""Its split, and its place there."""
Drawn = TypeVar("Drawn")


class OpenedOnce(ScriptedSource):
    """``opened``: in this attempt, by whichever reader."""

    opened: set[int]

    def open(self, split: Split, position: bytes | None) -> ScriptedReader:
        assert split.number not in self.opened, f"split {split.number} is read by two readers, or twice by one"
        self.opened.add(split.number)
        return super().open(split, position)


class Source(RuleBasedStateMachine):
    """One source over several attempts with any number of readers."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0.0
        self.attempt = Attempt(0)
        self.checkpoints = 0
        self.state: SourceState | None = None
        self.committed: list[Row] = []
        """Rows before the barrier of a completed checkpoint: nobody takes them back."""
        self.delay_us: int | None = None
        self.log = self.bounded = False
        self.source = OpenedOnce([])

    @initialize(
        readers=st.integers(1, 3),
        splits=st.integers(0, 12),
        log=st.booleans(),
        bounded=st.booleans(),
        delay_us=st.sampled_from([None, 0]),
    )
    def a_query_starts(self, readers: int, splits: int, log: bool, bounded: bool, delay_us: int | None) -> None:
        self.log, self.bounded, self.delay_us = log, bounded, delay_us
        self.source = OpenedOnce([], batch_rows=2, log=log)
        self._add(number % 4 for number in range(splits))
        self._begin(readers)

    def _add(self, counts: Iterable[int]) -> None:
        for count in counts:
            rows = self._rows(len(self.source.splits), 0, count)
            self.source.splits.append(ScriptedSplit(rows, closed=not self.log or self.bounded))

    def _rows(self, of: int, start: int, count: int) -> pl.DataFrame:
        rows = [(of, n) for n in range(start, start + count)]
        return pl.DataFrame(rows, schema={"of": pl.Int64, "n": pl.Int64}, orient="row")

    def _begin(self, readers: int) -> None:
        """An attempt, from ``state``."""
        self.attempt = Attempt(self.attempt + 1)
        self.source.opened = set()
        self.assigner: SplitAssigner = (
            fresh(SOURCE, readers, self.delay_us)
            if self.state is None
            else restored(self.state, readers, self.delay_us)
        )
        self.watch = Watch(SOURCE, ScriptedEnumerator(self.source), self.state)
        self.readers = [self._reader(slot, readers) for slot in range(readers)]
        self.to_driver: list[SplitsWanted] = []
        self.to_readers: list[AssignSplits] = []
        self.by_barrier: dict[tuple[int, int], list[Row]] = {}
        """Of which reader, before which checkpoint's barrier."""
        self.progress: dict[int, dict[int, SourceProgress]] = {}
        self.since: list[list[Row]] = [[] for _ in range(readers)]
        self._spread()

    def _reader(self, slot: int, of: int) -> SourceOperator:
        context = OperatorContext(
            operator=SOURCE,
            subtask=SlotIndex(slot),
            parallelism=of,
            max_parallelism=of,
            groups=KeyGroupRange(slot, slot + 1),
            restored=Restored(),
        )
        reader = SourceOperator(p.scan(0, "#1"), context, self.source, QueryConfig(bounded=self.bounded), self.now_ms)
        reader.take_place(None)
        return reader

    def _spread(self) -> None:
        """As the coordinator does it after every change."""
        (self.assigner,) = granting.granted(PLAN, (self.assigner,))
        self.assigner, messages = self.assigner.assign(self.attempt, now_ms=int(self.now_ms))
        self.to_readers += messages

    # --- the input ------------------------------------------------------------------------------------------------------

    @precondition(lambda self: not self.bounded or not self.assigner.discovered)
    @rule(rows=st.lists(st.integers(0, 5), min_size=1, max_size=6))
    def splits_appear(self, rows: list[int]) -> None:
        if len(self.source.splits) < 40:
            self._add(rows)

    @precondition(lambda self: self.log and not self.bounded and self.source.splits)
    @rule(data=st.data(), rows=st.integers(1, 4))
    def a_log_grows(self, data: st.DataObject, rows: int) -> None:
        number = data.draw(st.integers(0, len(self.source.splits) - 1))
        split = self.source.splits[number]
        split.append(self._rows(number, split.rows.height, rows))

    @rule()
    def the_driver_looks(self) -> None:
        new = self.watch.look(self.now_ms)
        told = self.watch.told(self.attempt, self.now_ms, new, bounded=self.bounded)
        if told is not None:
            self.assigner = self.assigner.on_looked(told)
            self._spread()

    # --- the network ----------------------------------------------------------------------------------------------------

    @rule(after_ms=st.sampled_from([1, 100, 1_000, 10_000]))
    def readers_ask(self, after_ms: int) -> None:
        self.now_ms += after_ms
        for slot, reader in enumerate(self.readers):
            request = reader.ask(self.now_ms)
            if request is not None:
                self.to_driver.append(
                    SplitsWanted(
                        attempt=self.attempt,
                        slot=SlotIndex(slot),
                        operator=SOURCE,
                        open=request.open,
                        finished=request.finished,
                        received=request.received,
                        number=request.number,
                        asks=request.asks,
                    )
                )

    @precondition(lambda self: self.to_driver)
    @rule(data=st.data())
    def a_question_arrives(self, data: st.DataObject) -> None:
        """T72: late, more than once, or never."""
        message = self._arriving(self.to_driver, data)
        if message is not None:
            self._on_wanted(message)

    def _on_wanted(self, message: SplitsWanted) -> None:
        self.assigner = self.assigner.on_wanted(message)
        if message.asks:
            self.to_readers += self.assigner.unconfirmed(message.slot)
        self._spread()

    @precondition(lambda self: self.to_readers)
    @rule(data=st.data())
    def an_assignment_arrives(self, data: st.DataObject) -> None:
        message = self._arriving(self.to_readers, data)
        if message is not None:
            self.readers[message.subtask].assign(message, self.now_ms)

    def _arriving(self, messages: list[Drawn], data: st.DataObject) -> Drawn | None:
        fate = data.draw(st.sampled_from(["in order", "in order", "in order", "late", "twice", "lost"]))
        at = data.draw(st.integers(0, len(messages) - 1)) if fate != "in order" else 0
        message = messages[at]
        if fate != "twice":
            del messages[at]
        return None if fate == "lost" else message

    @rule()
    def the_driver_repeats_what_nobody_confirmed(self) -> None:
        self.to_readers += self.assigner.unconfirmed()

    @rule()
    def everything_arrives(self) -> None:
        questions, self.to_driver = self.to_driver, []
        for question in questions:
            self._on_wanted(question)
        answers, self.to_readers = self.to_readers, []
        for answer in answers:
            self.readers[answer.subtask].assign(answer, self.now_ms)

    # --- reading and checkpoints ------------------------------------------------------------------------------------------

    @rule(data=st.data(), polls=st.integers(1, 8))
    def a_reader_reads(self, data: st.DataObject, polls: int) -> None:
        slot = data.draw(st.integers(0, len(self.readers) - 1))
        for _ in range(polls):
            self._poll(slot)

    def _poll(self, slot: int) -> bool:
        brought = False
        for one in self.readers[slot].poll(2, self.now_ms):
            if isinstance(one, Batch):
                self.since[slot] += [(of, n) for of, n in one.rows.iter_rows()]
                brought = True
        return brought

    @rule(data=st.data())
    def a_barrier_reaches_some_readers(self, data: st.DataObject) -> None:
        """One checkpoint after the other, each at its own time at each reader."""
        if not self.progress or len(self.progress[self.checkpoints]) == len(self.readers):
            self.checkpoints += 1
            self.progress[self.checkpoints] = {}
        missing = [slot for slot in range(len(self.readers)) if slot not in self.progress[self.checkpoints]]
        for slot in missing[: data.draw(st.integers(1, len(missing)))]:
            self._barrier(slot)

    def _barrier(self, slot: int) -> None:
        state = self.readers[slot].snapshot(CheckpointId(self.checkpoints))
        assert state.source is not None
        self.progress[self.checkpoints][slot] = state.source
        self.by_barrier[self.checkpoints, slot], self.since[slot] = self.since[slot], []

    @precondition(lambda self: self._is_collected)
    @rule(hears=st.booleans())
    def the_checkpoint_is_complete(self, hears: bool) -> None:
        """Or is given up, if it is never drawn: what it would have committed goes with the next one."""
        self._complete()
        if hears:
            for reader in self.readers:
                reader.on_completed(CheckpointId(self.checkpoints))

    @property
    def _is_collected(self) -> bool:
        return bool(self.progress) and len(self.progress[self.checkpoints]) == len(self.readers)

    def _complete(self) -> None:
        progress = self.progress[self.checkpoints]
        self.state = self.assigner.fold(progress[slot] for slot in sorted(progress))
        self.assigner = self.assigner.on_completed(self.state)
        for rows in self.by_barrier.values():
            self.committed += rows
        self.by_barrier = {}
        self._check_state(self.state)
        self.checkpoints += 1
        self.progress[self.checkpoints] = {}

    def _check_state(self, state: SourceState) -> None:
        """Every row before the cut belongs to a split that is done or open, and none is there twice."""
        twice = [row for row, count in Counter(self.committed).items() if count > 1]
        assert twice == [], "rows are doubled"
        reached = {
            one.split.number: msgspec.msgpack.decode(one.position, type=int) if one.position else 0
            for one in state.open
        }
        for of, count in Counter(of for of, _ in self.committed).items():
            if contains(state.done, of):
                assert count == self.source.splits[of].rows.height, f"split {of} is done and not whole"
            else:
                assert reached.get(of) == count, f"split {of} goes on at another row than the one behind its last"

    @rule(readers=st.integers(1, 3))
    def the_attempt_fails(self, readers: int) -> None:
        """T35: at any moment, and another number of readers goes on from the newest completed checkpoint."""
        self.checkpoints += 1
        self._begin(readers)

    # --- the law ----------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """When messages arrive, every row is read, and a bounded run ends."""
        for _ in range(60):
            self.the_driver_looks()
            self.readers_ask(10_000)
            self.the_driver_repeats_what_nobody_confirmed()
            self.everything_arrives()
            for slot in range(len(self.readers)):
                while self._poll(slot):
                    pass
        self.checkpoints += 1
        self.progress[self.checkpoints] = {}
        for slot in range(len(self.readers)):
            self._barrier(slot)
        self._complete()
        everything = [(of, n) for of, split in enumerate(self.source.splits) for n in range(split.rows.height)]
        assert sorted(self.committed) == everything
        if self.bounded:
            assert all(reader.exhausted for reader in self.readers)


Source.TestCase.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
TestSource = Source.TestCase
