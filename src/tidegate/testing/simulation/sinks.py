"""A transactional outside world: prepared output is durable and invisible, committed output is visible for ever."""

from __future__ import annotations

from collections import deque

import msgspec
import polars as pl

from tidegate.model.errors import Unavailable
from tidegate.model.ids import Attempt, CheckpointId, OperatorId, SlotIndex
from tidegate.model.snapshot import Committable
from tidegate.plan.relational import Sink
from tidegate.testing.simulation.agenda import Agenda
from tidegate.testing.simulation.faults import Faults, Tally


class Transaction(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Identity of a piece of output: no two attempts can form the same one."""

    pipeline: str
    sink: str
    checkpoint: int
    attempt: int
    subtask: int


class SimulatedOutside:
    """Everything the sinks of a run did. ``visible`` keeps the order in which output appeared."""

    def __init__(self, agenda: Agenda, faults: Faults, tally: Tally) -> None:
        self._agenda = agenda
        self._tally = tally
        self.faults = faults
        self.prepared: dict[Transaction, pl.DataFrame] = {}
        self.visible: dict[Transaction, pl.DataFrame] = {}
        self.aborted: set[Transaction] = set()
        self.violations: list[str] = []

    def prepare(self, transaction: Transaction, rows: pl.DataFrame) -> None:
        if transaction in self.prepared or transaction in self.visible:
            self.violations.append(f"{transaction} was prepared twice")
        self.prepared[transaction] = rows

    def check_settles(self) -> None:
        if self._agenda.chance(self.faults.settle_fails):
            self._tally.fault("settle_fails")
            raise Unavailable("the sink does not take the rows")

    def latency_ms(self) -> int:
        if self._agenda.chance(self.faults.commit_slow):
            self._tally.fault("commit_slow")
            return self._agenda.random.randint(1_000, 6_000)
        return self._agenda.random.randint(1, 80)

    def commit(self, committables: tuple[Committable, ...]) -> None:
        """May fail before, in the middle or after. Safe to repeat."""
        if self._agenda.chance(self.faults.commit_fails):
            self._tally.fault("commit_fails")
            raise Unavailable("the sink did not commit")
        if self._agenda.chance(self.faults.commit_lands_late):
            self._tally.fault("commit_lands_late")
            self._agenda.soon(500, 6_000, lambda: self._land(committables))
            raise Unavailable("no answer from the sink yet")
        partly = len(committables) > 1 and self._agenda.chance(self.faults.commit_partly)
        for committable in committables[: len(committables) // 2] if partly else committables:
            self._commit_one(msgspec.msgpack.decode(committable.payload, type=Transaction))
        if partly:
            self._tally.fault("commit_partly")
            raise Unavailable("the sink failed in the middle of the commit")
        if self._agenda.chance(self.faults.commit_answer_lost):
            self._tally.fault("commit_answer_lost")
            raise Unavailable("no answer from the sink")

    def _land(self, committables: tuple[Committable, ...]) -> None:
        self._agenda.note("outside", "a commit lands late")
        for committable in committables:
            self._commit_one(msgspec.msgpack.decode(committable.payload, type=Transaction))

    def _commit_one(self, transaction: Transaction) -> None:
        if transaction in self.visible:
            return
        if transaction in self.aborted:
            self.violations.append(f"{transaction} was committed after it had been aborted: its rows are lost")
            return
        self._agenda.note("outside", f"visible {transaction}")
        rows = self.prepared.pop(transaction, None)
        if rows is None:
            self.violations.append(f"{transaction} was committed but never prepared")
            return
        self.visible[transaction] = rows

    def sweep(self, pipeline: str, sink: OperatorId, older_than: Attempt, keep: tuple[Committable, ...]) -> None:
        kept = {msgspec.msgpack.decode(committable.payload, type=Transaction) for committable in keep}
        for transaction in sorted(self.prepared):
            mine = transaction.pipeline == pipeline and transaction.sink == sink
            if mine and transaction.attempt < older_than and transaction not in kept:
                self._agenda.note("outside", f"aborted {transaction}")
                del self.prepared[transaction]
                self.aborted.add(transaction)


class SimulatedSinkConnector:
    guarantee = "exactly_once"

    def __init__(self, outside: SimulatedOutside, pipeline: str) -> None:
        self._outside = outside
        self._pipeline = pipeline

    def writer(self, sink: Sink, attempt: Attempt, subtask: SlotIndex) -> SimulatedWriter:
        return SimulatedWriter(self._outside, (self._pipeline, sink.id, attempt, subtask))


class SimulatedWriter:
    """Prepared rows are durable once they are settled: a slot that dies in between takes them with it."""

    def __init__(self, outside: SimulatedOutside, identity: tuple[str, OperatorId, Attempt, SlotIndex]) -> None:
        self._outside = outside
        self._identity = identity
        self._rows: list[pl.DataFrame] = []
        self._sealed: deque[tuple[Transaction, pl.DataFrame]] = deque()

    def write(self, rows: pl.DataFrame) -> None:
        self._rows.append(rows)

    def prepare(self, checkpoint: CheckpointId) -> tuple[bytes, ...]:
        if not self._rows:
            return ()
        pipeline, sink, attempt, subtask = self._identity
        transaction = Transaction(pipeline, sink, checkpoint, attempt, subtask)
        self._sealed.append((transaction, pl.concat(self._rows)))
        self._rows = []
        return (msgspec.msgpack.encode(transaction),)

    def settle(self, checkpoint: CheckpointId) -> None:
        while self._sealed and self._sealed[0][0].checkpoint <= checkpoint:
            self._outside.check_settles()
            self._outside.prepare(*self._sealed.popleft())

    def close(self) -> None:
        self._rows = []
