"""State of p old subtasks for q new ones."""

from __future__ import annotations

import msgspec
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.model.ids import CheckpointId, OperatorId, SlotIndex
from tidegate.model.snapshot import ChunkHandle, Committable, OperatorSnapshot
from tidegate.operators.protocol import Restored
from tidegate.runtime.restore import restored_for
from tidegate.runtime.stage_time import StageTime, restored_start_us
from tidegate.state.keygroups import range_of

NAME = OperatorId("aggregate-0")
INPUTS = OperatorId("aggregate-0.inputs")


def old(parallelism: int, groups: int) -> tuple[OperatorSnapshot, ...]:
    """Each old subtask: one chunk with a row per key group of its own, a value and two committables."""
    snapshots = []
    for index in range(parallelism):
        own = range_of(index, parallelism, groups)
        chunk = ChunkHandle(name=str(index), groups=own, rows=own.stop - own.start, size_bytes=0, checksum=0)
        committables = tuple(
            Committable(checkpoint=CheckpointId(1), subtask=SlotIndex(index), number=n, payload=b"%d/%d" % (index, n))
            for n in range(2)
        )
        snapshots.append(
            OperatorSnapshot(
                operator=NAME,
                subtask=SlotIndex(index),
                chunks=(chunk,),
                value=b"%d" % index,
                committables=committables,
            )
        )
    return tuple(snapshots)


def new(snapshots: tuple[OperatorSnapshot, ...], parallelism: int, groups: int) -> list[Restored]:
    def load(handle: ChunkHandle) -> pl.DataFrame:
        return pl.DataFrame({"kg": list(range(groups))})  # More than its own: references to parts of a chunk are legal.

    return [
        restored_for(
            NAME,
            snapshots,
            subtask=SlotIndex(index),
            parallelism=parallelism,
            groups=range_of(index, parallelism, groups),
            load=load,
        )
        for index in range(parallelism)
    ]


@settings(deadline=None, max_examples=60)
@given(p=st.integers(1, 9), q=st.integers(1, 9), groups=st.sampled_from([13, 16, 128]))
def test_every_key_group_and_every_committable_has_exactly_one_new_owner(p: int, q: int, groups: int) -> None:
    """T45 T46"""
    snapshots = old(p, groups)
    parts = new(snapshots, q, groups)
    found = [group for part in parts for chunk in part.chunks for group in chunk.rows["kg"].to_list()]
    assert sorted(found) == list(range(groups))
    carried = sorted(c.payload for part in parts for c in part.committables)
    assert carried == sorted(c.payload for snapshot in snapshots for c in snapshot.committables)
    assert all(part.values == tuple(b"%d" % index for index in range(p)) for part in parts)


def time(subtask: int, combined_us: int, parallelism: int) -> OperatorSnapshot:
    state = StageTime(combined_us=combined_us, parallelism=parallelism, channels=())
    return OperatorSnapshot(operator=INPUTS, subtask=SlotIndex(subtask), value=msgspec.msgpack.encode(state))


def test_event_time_goes_on_where_each_subtask_was_and_after_a_rescale_at_the_smallest() -> None:
    """T26 T27"""
    snapshots = (time(0, 50, 2), time(1, 70, 2))

    def start(subtask: int, parallelism: int, *, exchanged: bool) -> int:
        return restored_start_us(INPUTS, snapshots, SlotIndex(subtask), parallelism, exchanged=exchanged)

    assert start(1, 2, exchanged=True) == 70
    assert start(1, 3, exchanged=True) == 50
    assert start(1, 2, exchanged=False) == 50
