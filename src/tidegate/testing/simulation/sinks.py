"""A transactional outside world: prepared output is durable and invisible, committed output is visible for ever. Of whole results
the newest counts: an older one that is committed late is none any more, and may have been aborted.

Like Kafka, it keeps rows where they arrived: rows that are sent later stand behind, whichever transaction is committed first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

import msgspec
import polars as pl

from tidegate.model.errors import Unavailable
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.output_mode import OutputMode
from tidegate.model.snapshot import Committable, HandedBack, Published
from tidegate.plan.relational import Sink
from tidegate.ports.sink import SinkWriter
from tidegate.testing.simulation.agenda import Agenda
from tidegate.testing.simulation.faults import Faults, Tally


class Transaction(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Identity of a piece of output: no two attempts can form the same one."""

    pipeline: str
    sink: str
    checkpoint: int
    attempt: int
    subtask: int


Identity: TypeAlias = tuple[str, OperatorId, Attempt, SlotIndex]
"""Of a writer: pipeline, sink, attempt, subtask."""


class SimulatedOutside:
    """Everything the sinks of a run did. ``visible`` keeps the order in which output appeared, ``log`` the order in which it arrived."""

    def __init__(self, agenda: Agenda, faults: Faults, tally: Tally) -> None:
        self._agenda = agenda
        self._tally = tally
        self.faults = faults
        self.prepared: dict[Transaction, pl.DataFrame] = {}
        self.visible: dict[Transaction, pl.DataFrame] = {}
        self.aborted: set[Transaction] = set()
        self.made: dict[Transaction, pl.DataFrame] = {}
        """Everything that was ever prepared."""
        self.whole: set[OperatorId] = set()
        """Sinks of which each result takes the place of the one before."""
        self.log: list[tuple[Identity, int]] = []
        """Batches as they arrived, each with the number that its writer gave it."""
        self.batches: dict[Transaction, range] = {}
        """Their numbers."""
        self.attempts_repeat = False
        """An older copy of a location does not know all attempts: what one of those had prepared is in the way of its namesake."""
        self.violations: list[str] = []

    def prepare(self, transaction: Transaction, rows: pl.DataFrame, batches: range) -> None:
        if transaction in self.visible or (transaction in self.prepared and not self.attempts_repeat):
            self.violations.append(f"{transaction} was prepared twice")
        if self.attempts_repeat:
            # What was aborted was its namesake. A sweep that takes this one is a finding as before.
            self.aborted.discard(transaction)
        self.prepared[transaction] = self.made[transaction] = rows
        self.batches[transaction] = batches

    def travel(self, land: Callable[[], None]) -> None:
        """A batch is on its way; now and then for long, because it got lost and is sent again."""
        if self.faults.send_slow and self._agenda.chance(self.faults.send_slow):
            self._tally.fault("send_slow")
            self._agenda.soon(500, 3_000, land)
        else:
            self._agenda.soon(0, 50, land)

    def check_settles(self) -> None:
        if self._agenda.chance(self.faults.settle_fails):
            self._tally.fault("settle_fails")
            raise Unavailable("the sink does not take the rows")

    def latency_ms(self) -> int:
        if self._agenda.chance(self.faults.commit_slow):
            self._tally.fault("commit_slow")
            return self._agenda.random.randint(1_000, 6_000)
        return self._agenda.random.randint(1, 80)

    def commit(self, sink: OperatorId, committables: tuple[Committable, ...]) -> HandedBack | None:
        """May fail before, in the middle or after, or hand some back. Safe to repeat."""
        if self._agenda.chance(self.faults.commit_fails):
            self._tally.fault("commit_fails")
            raise Unavailable("the sink did not commit")
        if self._agenda.chance(self.faults.commit_lands_late):
            self._tally.fault("commit_lands_late")
            self._agenda.soon(500, 6_000, lambda: self._land(committables))
            raise Unavailable("no answer from the sink yet")
        if self.faults.hands_back and self._agenda.chance(self.faults.hands_back):
            return self._hand_back(sink, committables)
        partly = len(committables) > 1 and self._agenda.chance(self.faults.commit_partly)
        for committable in committables[: len(committables) // 2] if partly else committables:
            self._commit_one(msgspec.msgpack.decode(committable.payload, type=Transaction))
        if partly:
            self._tally.fault("commit_partly")
            raise Unavailable("the sink failed in the middle of the commit")
        if self._agenda.chance(self.faults.commit_answer_lost):
            self._tally.fault("commit_answer_lost")
            raise Unavailable("no answer from the sink")
        return None

    def _hand_back(self, sink: OperatorId, committables: tuple[Committable, ...]) -> HandedBack:
        """Any of one checkpoint, one at least, and all of later ones."""
        self._tally.fault("hands_back")
        stuck = self._agenda.random.choice(committables)
        left = tuple(
            one
            for one in committables
            if one == stuck
            or one.checkpoint > stuck.checkpoint
            or (one.checkpoint == stuck.checkpoint and self._agenda.chance(0.5))
        )
        for committable in committables:
            if committable not in left:
                self._commit_one(msgspec.msgpack.decode(committable.payload, type=Transaction))
        return HandedBack(left, Unavailable(f"{sink} could not commit {len(left)} yet"))

    def _land(self, committables: tuple[Committable, ...]) -> None:
        self._agenda.note("outside", "a commit lands late")
        for committable in committables:
            self._commit_one(msgspec.msgpack.decode(committable.payload, type=Transaction))

    def _commit_one(self, transaction: Transaction) -> None:
        if transaction in self.visible:
            return
        newest = self.published(transaction.pipeline, OperatorId(transaction.sink))
        if OperatorId(transaction.sink) in self.whole and newest is not None and _published(transaction) < newest:
            self._tally.path("a whole result came after a newer one")
            return
        if transaction in self.aborted:
            self.violations.append(f"{transaction} was committed after it had been aborted: its rows are lost")
            return
        if newest is not None and _published(transaction) < newest:
            self.violations.append(f"{transaction} comes after {newest}: a sink that compares them skips its rows")
        self._agenda.note("outside", f"visible {transaction}")
        rows = self.prepared.pop(transaction, None)
        if rows is None:
            self.violations.append(f"{transaction} was committed but never prepared")
            return
        self.visible[transaction] = rows

    def published(self, pipeline: str, sink: OperatorId) -> Published | None:
        """The newest output that the outside remembers."""
        visible = (one for one in self.visible if one.pipeline == pipeline and one.sink == sink)
        return max(map(_published, visible), default=None)

    def sweep(self, pipeline: str, sink: OperatorId, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        kept = {msgspec.msgpack.decode(committable.payload, type=Transaction) for committable in keep}
        for transaction in sorted(self.prepared):
            mine = transaction.pipeline == pipeline and transaction.sink == sink
            if mine and transaction.attempt < older_than and transaction not in kept:
                self._agenda.note("outside", f"aborted {transaction}")
                del self.prepared[transaction]
                self.aborted.add(transaction)


def _published(transaction: Transaction) -> Published:
    return Published(Attempt(transaction.attempt), CheckpointId(transaction.checkpoint))


def simulated_writer(
    outside: SimulatedOutside, pipeline: str, sink: Sink, attempt: Attempt, subtask: SlotIndex
) -> SimulatedWriter:
    if sink.mode is OutputMode.COMPLETE:
        outside.whole.add(sink.id)
    return SimulatedWriter(outside, (pipeline, sink.id, attempt, subtask))


class SimulatedWriter(SinkWriter):
    """Prepared rows are durable once they are settled: a slot that dies in between takes them with it.

    Batches travel in the background, one after the other: the next one leaves when the one before has arrived.
    """

    def __init__(self, outside: SimulatedOutside, identity: Identity) -> None:
        self._outside = outside
        self._identity = identity
        self._rows: list[pl.DataFrame] = []
        self._sealed: deque[tuple[Transaction, pl.DataFrame, range]] = deque()
        self._written = 0
        self._unsent: deque[int] = deque()
        """Numbers of batches that have not arrived."""
        self._travels = False

    def write(self, rows: pl.DataFrame) -> None:
        self._rows.append(rows)
        self._unsent.append(self._written)
        self._written += 1
        self._send_next()

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        if not self._rows:
            return ()
        pipeline, sink, attempt, subtask = self._identity
        transaction = Transaction(pipeline, sink, checkpoint, attempt, subtask)
        batches = range(self._written - len(self._rows), self._written)
        self._sealed.append((transaction, pl.concat(self._rows), batches))
        self._rows = []
        return (msgspec.msgpack.encode(transaction),)

    def settle(self, checkpoint: CheckpointId) -> None:
        while self._sealed and self._sealed[0][0].checkpoint <= checkpoint:
            self._outside.check_settles()
            transaction, rows, batches = self._sealed.popleft()
            for number in [one for one in self._unsent if one in batches]:
                self._arrive(number)
            self._outside.prepare(transaction, rows, batches)

    def close(self) -> None:
        self._rows = []

    def _send_next(self) -> None:
        if not self._travels and self._unsent:
            self._travels = True
            number = self._next_to_send()
            self._outside.travel(lambda: self._landed(number))

    def _next_to_send(self) -> int:
        return self._unsent[0]

    def _landed(self, number: int) -> None:
        self._travels = False
        if number in self._unsent:
            self._arrive(number)
        self._send_next()

    def _arrive(self, number: int) -> None:
        self._unsent.remove(number)
        self._outside.log.append((self._identity, number))
