"""Ids of a subtask's transactions, in random histories of checkpoints and of notices that come late, twice or not at all."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tidegate.connectors.kafka.sink.id_pool import IdPool
from tidegate.model.ids import CheckpointId

Prepared = tuple[int, int]
"""Id and checkpoint of a transaction."""


class Transactions(RuleBasedStateMachine):
    """One subtask and what a recovery would find. ``carried``: what the snapshot of each checkpoint holds, as the sink operator
    keeps it: everything prepared of which no notice said before the barrier that it is visible."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = IdPool()
        self.writing: int | None = None
        self.pending: list[Prepared] = []
        self.carried: dict[int, list[Prepared]] = {}
        self.newest = 0
        """The newest complete checkpoint: every recovery starts from it, or from one that is not decided yet."""
        self.committed: list[int] = []
        self.taken: list[int] = []

    @precondition(lambda self: self.writing is None)
    @rule()
    def rows_come(self) -> None:
        self.writing = self.pool.take()
        self.taken.append(self.writing)
        assert self.writing not in self.wanted, "a recovery would commit what was written under this id before"
        assert self.writing not in [k for k, _ in self.pending], "its transaction waits for its commit"

    @rule()
    def a_barrier_comes(self) -> None:
        checkpoint = len(self.carried) + 1
        self.pool.barrier(CheckpointId(checkpoint))
        if self.writing is not None:
            self.pool.prepared(self.writing, CheckpointId(checkpoint))
            self.pending.append((self.writing, checkpoint))
            self.writing = None
        self.carried[checkpoint] = list(self.pending)

    @precondition(lambda self: self.newest < len(self.carried))
    @rule(data=st.data())
    def a_checkpoint_is_complete(self, data: st.DataObject) -> None:
        """Those before it that are not are given up. Its output becomes visible, whether or not anybody hears of it."""
        self.newest = data.draw(st.integers(self.newest + 1, len(self.carried)))
        self.committed.append(self.newest)

    @precondition(lambda self: self.committed)
    @rule(data=st.data(), again=st.booleans())
    def a_notice_arrives(self, data: st.DataObject, again: bool) -> None:
        """Any of them, late or for the second time; those that are never drawn are lost."""
        checkpoint = data.draw(st.sampled_from(self.committed)) if again else self.committed[-1]
        self.pool.committed(CheckpointId(checkpoint))
        self.pending = [one for one in self.pending if one[1] > checkpoint]

    @property
    def wanted(self) -> set[int]:
        """Ids whose transactions some recovery can want to commit."""
        possible = [self.carried.get(self.newest, []), *(self.carried[n] for n in self.carried if n > self.newest)]
        return {k for carried in possible for k, _ in carried}

    @invariant()
    def ids_are_dense(self) -> None:
        assert sorted(set(self.taken)) == list(range(self.pool.size))

    def teardown(self) -> None:
        """When notices come, ids come back: with one checkpoint under way at a time a handful is enough."""
        size = self.pool.size
        for _ in range(20):
            if self.writing is None:
                self.rows_come()
            self.a_barrier_comes()
            self.newest = len(self.carried)
            self.committed.append(self.newest)
            self.pool.committed(CheckpointId(self.newest))
            self.pending = []
        assert self.pool.size <= size + 3


Transactions.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestTransactions = Transactions.TestCase
