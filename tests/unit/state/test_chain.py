"""Which stored chunks a snapshot may build on, and when they are merged."""

from __future__ import annotations

import random

from tidegate.model.ids import CheckpointId
from tidegate.model.snapshot import ChunkHandle, KeyGroupRange
from tidegate.state.chain import Chain, Link

GROUPS = KeyGroupRange(0, 128)


def handle(name: str, rows: int = 1) -> ChunkHandle:
    return ChunkHandle(name=name, groups=GROUPS, rows=rows, size_bytes=1, checksum=0)


class Table:
    """A table reduced to what the chain sees: the epoch in which each of its keys changed last."""

    def __init__(self, keys: int = 0) -> None:
        self.chain, self.epoch, self.changed = Chain(), 1, [1] * keys

    def change(self, keys: range) -> None:
        self.changed += [0] * (keys.stop - len(self.changed))
        for key in keys:
            self.changed[key] = self.epoch

    def snapshot(self, checkpoint: int) -> tuple[str, ...]:
        """Names of its chunks; the new one is called after the checkpoint."""
        since = lambda epoch: sum(at > epoch for at in self.changed)  # noqa: E731
        cut = self.chain.cut(since, len(self.changed))
        new = since(cut.since)
        self.chain = self.chain.handed_out(CheckpointId(checkpoint), cut, self.epoch)
        self.epoch += 1
        handles = (*(link.handle for link in cut.kept), *([handle(str(checkpoint), new)] if new else []))
        self.chain = self.chain.stored(CheckpointId(checkpoint), handles)
        return tuple(h.name for h in handles)

    def complete(self, checkpoint: int) -> None:
        self.chain = self.chain.completed(CheckpointId(checkpoint))


def test_only_what_changed_is_stored_again() -> None:
    table = Table(keys=100)
    assert table.snapshot(1) == ("1",)
    table.complete(1)
    table.change(range(5))
    assert table.snapshot(2) == ("1", "2")
    table.complete(2)
    assert table.snapshot(3) == ("1", "2")


def test_an_aborted_checkpoints_upload_is_never_referred_to() -> None:
    """T39: 2 was never confirmed, so 3 uploads its changes again."""
    table = Table(keys=100)
    table.snapshot(1)
    table.complete(1)
    table.change(range(5))
    table.snapshot(2)
    assert table.snapshot(3) == ("1", "3")
    table.complete(3)
    assert {link.handle.name for link in table.chain.links} == {"1", "3"}
    assert table.chain.links[-1].since == table.chain.links[0].until


def test_a_completion_we_have_not_heard_of_may_have_deleted_what_it_left_out() -> None:
    """T36: 2 was written whole. If it completed, chunk 1 may be gone: 3, taken before the notice, must not name it."""
    table = Table(keys=100)
    table.snapshot(1)
    table.complete(1)
    table.changed = table.changed[:40]
    assert table.snapshot(2) == ("2",)
    table.change(range(40, 70))
    assert table.snapshot(3) == ("3",)


def test_a_late_or_repeated_notice_changes_nothing() -> None:
    table = Table(keys=100)
    table.snapshot(1)
    table.snapshot(2)
    table.complete(2)
    after = table.chain
    table.complete(1)
    table.complete(2)
    table.complete(77)
    assert table.chain == after


def test_a_snapshot_whose_chunks_were_never_stored_is_not_built_on() -> None:
    chain = Chain().handed_out(CheckpointId(1), Chain().cut(lambda _: 5, 5), until=1)
    assert chain.completed(CheckpointId(1)) == chain


def test_small_changes_are_merged_so_that_chains_stay_short() -> None:
    table = Table(keys=10_000)
    longest, written = 0, 0
    rng = random.Random(1)
    for checkpoint in range(1, 300):
        start = rng.randrange(9_900)
        table.change(range(start, start + 50))
        longest = max(longest, len(table.snapshot(checkpoint)))
        written += sum(link.rows for link in table.chain.pending[-1].added)
        table.complete(checkpoint)
    assert longest <= 10
    assert written < 300 * 50 * 10  # Each change is written about log n times, not n.


def test_a_base_of_mostly_dead_rows_is_rewritten() -> None:
    table = Table(keys=1000)
    table.snapshot(1)
    table.complete(1)
    table.changed = table.changed[:100]
    assert table.snapshot(2) == ("2",)


def test_an_emptied_table_refers_to_nothing() -> None:
    table = Table(keys=10)
    table.snapshot(1)
    table.complete(1)
    table.changed = []
    assert table.snapshot(2) == ()


def test_a_restored_chain_is_built_on() -> None:
    table = Table(keys=100)
    table.chain, table.epoch = Chain((Link(handle("old"), 0, 1, 100),), 1), 2
    table.change(range(3))
    assert table.snapshot(9) == ("old", "9")
