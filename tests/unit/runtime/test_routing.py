"""Which channel a row takes."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.model import types as t
from tidegate.model.ids import StageId
from tidegate.plan.graph import Edge, Partitioning
from tidegate.runtime.routing import Router, router
from tidegate.state.hashing import hash_columns
from tidegate.state.keygroups import key_groups, range_of

SCHEMA = (t.Field("k", t.STRING), t.Field("n", t.LONG))


def make(how: Partitioning, parallelism: int, keys: tuple[str, ...] = ("k",), subtask: int = 0) -> Router:
    return router(Edge(0, StageId(0), StageId(1), 0, how, keys, SCHEMA), subtask, parallelism, 16)


def rows(keys: Iterable[str]) -> pl.DataFrame:
    frame = pl.DataFrame({"k": list(keys)}, schema={"k": pl.String})
    return frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias("n"))


@settings(deadline=None)
@given(st.lists(st.text(max_size=3), min_size=1, max_size=60), st.integers(1, 16))
def test_keyed_rows_go_to_the_owner_of_their_key_group_in_order(keys: list[str], parallelism: int) -> None:
    frame = rows(keys)
    pieces = list(make(Partitioning.KEYED, parallelism).route(frame))
    assert all(piece.height for _, piece in pieces)
    assert sorted(pl.concat([piece for _, piece in pieces])["n"]) == list(range(frame.height))
    for target, piece in pieces:
        groups = key_groups(hash_columns(piece.select("k"), (t.STRING,)), 16)
        assert all(int(group) in range_of(target, parallelism, 16) for group in groups)
        assert piece["n"].is_sorted()


def test_a_batch_with_one_target_is_passed_on_as_it_is() -> None:
    frame = rows(["a", "a", "a"])
    ((_, piece),) = make(Partitioning.KEYED, 4).route(frame)
    assert piece is frame


def test_without_keys_all_rows_meet_in_one_subtask() -> None:
    frame = rows("abc")
    assert [(target, piece.height) for target, piece in make(Partitioning.KEYED, 4, ()).route(frame)] == [(0, 3)]


def test_rebalance_takes_whole_batches_in_turn() -> None:
    chosen = make(Partitioning.REBALANCE, 3, subtask=1)
    targets = [target for _ in range(4) for target, _ in chosen.route(rows("ab"))]
    assert targets == [1, 2, 0, 1]


def test_broadcast_gives_every_row_to_everyone() -> None:
    assert [target for target, _ in make(Partitioning.BROADCAST, 3).route(rows("ab"))] == [0, 1, 2]


@pytest.mark.parametrize("how", list(Partitioning))
def test_one_slot_needs_no_routing(how: Partitioning) -> None:
    frame = rows("ab")
    assert list(make(how, 1).route(frame)) == [(0, frame)]
