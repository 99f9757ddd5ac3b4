"""Key groups: every subtask's range holds exactly the groups that are routed to it."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate.model.types import LONG
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups, range_of, subtask_of


@pytest.mark.parametrize("max_parallelism", [41, 64, 97, 128, 127, 4096])
def test_ranges_tile_the_groups_for_every_parallelism(max_parallelism: int) -> None:
    """T45."""
    groups = np.arange(max_parallelism)
    for parallelism in range(1, 41):
        ranges = [range_of(subtask, parallelism, max_parallelism) for subtask in range(parallelism)]
        assert [r.start for r in ranges] == [0, *(r.stop for r in ranges[:-1])]
        assert ranges[-1].stop == max_parallelism
        sizes = [r.stop - r.start for r in ranges]
        assert max(sizes) - min(sizes) <= 1
        routed = subtask_of(groups, parallelism, max_parallelism)
        assert all(group in ranges[subtask] for group, subtask in zip(groups.tolist(), routed.tolist(), strict=True))


@pytest.mark.parametrize("max_parallelism", [41, 128])
def test_rescaling_hands_every_group_to_exactly_one_new_owner(max_parallelism: int) -> None:
    """T45."""
    for p in range(1, 41):
        for q in range(1, 41):
            parts = [
                shared
                for new in range(q)
                for old in range(p)
                if (shared := range_of(old, p, max_parallelism).intersect(range_of(new, q, max_parallelism)))
            ]
            assert sum(part.stop - part.start for part in parts) == max_parallelism


@pytest.mark.parametrize("max_parallelism", [127, 128])
def test_groups_are_evenly_filled(max_parallelism: int) -> None:
    import polars as pl

    hashes = hash_columns(pl.DataFrame({"k": np.arange(200_000)}), (LONG,))
    filled = np.bincount(key_groups(hashes, max_parallelism), minlength=max_parallelism)
    assert filled.max() < 1.15 * filled.mean() and filled.min() > 0.85 * filled.mean()
