"""Stream–static joins match keys as Spark does."""

from __future__ import annotations

import io
from typing import Any

import polars as pl
import pytest

from tidegate.model import types as t
from tidegate.model.elements import Batch
from tidegate.operators import static_join
from tidegate.operators.columns import plan_type
from tidegate.operators.static_join import StaticJoinOperator
from tidegate.plan.expressions import Call, Column, Expression
from tidegate.plan.relational import JoinKind, StaticJoin

NAN = float("nan")
PEOPLE = pl.DataFrame({"id": [1, 2, 2, None], "name": ["ann", "bob", "ben", "nobody"]})
BIDS = pl.DataFrame({"bidder": [2, 1, None, 9], "price": [20, 10, 30, 90]})


def join(
    kind: JoinKind,
    stream: pl.DataFrame = BIDS,
    static: pl.DataFrame = PEOPLE,
    keys: tuple[tuple[str, str, t.DataType], ...] = (("bidder", "id", t.LONG),),
    null_safe: bool = False,
    condition: Expression | None = None,
) -> list[tuple[Any, ...]]:
    buffer = io.BytesIO()
    static.write_ipc_stream(buffer)
    static_names = () if kind in (JoinKind.SEMI, JoinKind.ANTI) else tuple(static.columns)
    node = StaticJoin(
        kind=kind,
        stream_keys=tuple(Column(mine, type_) for mine, _, type_ in keys),
        static_keys=tuple(Column(other, type_) for _, other, type_ in keys),
        null_safe=(null_safe,) * len(keys),
        condition=condition,
        table=buffer.getvalue(),
        static_schema=tuple(t.Field(name, plan_type(dtype)) for name, dtype in static.schema.items()),
        schema=tuple(t.Field(name, t.NULL) for name in (*stream.columns, *static_names)),
    )
    rows = [row for out in StaticJoinOperator(node).on_batch(Batch(stream)) for row in out.rows.rows()]  # type: ignore[union-attr]
    return sorted(rows, key=repr)


def test_an_inner_join_pairs_every_match_and_null_matches_nothing() -> None:
    assert join(JoinKind.INNER) == [(1, 10, 1, "ann"), (2, 20, 2, "ben"), (2, 20, 2, "bob")]


def test_a_left_join_keeps_stream_rows_without_a_partner() -> None:
    assert join(JoinKind.LEFT) == [
        (1, 10, 1, "ann"),
        (2, 20, 2, "ben"),
        (2, 20, 2, "bob"),
        (9, 90, None, None),
        (None, 30, None, None),
    ]


def test_semi_keeps_a_row_once_however_many_partners_it_has() -> None:
    assert join(JoinKind.SEMI) == [(1, 10), (2, 20)]


def test_anti_is_the_complement_of_semi() -> None:
    assert join(JoinKind.ANTI) == [(9, 90), (None, 30)]


def test_null_safe_keys_match_null() -> None:
    assert (None, 30, None, "nobody") in join(JoinKind.INNER, null_safe=True)


def test_nan_equals_nan_and_both_zeros_are_equal() -> None:
    stream = pl.DataFrame({"k": [NAN, -0.0, 1.0]})
    static = pl.DataFrame({"f": [0.0, -NAN]})
    joined = join(JoinKind.SEMI, stream, static, (("k", "f", t.DOUBLE),))
    assert repr(joined) == "[(-0.0,), (nan,)]"


def test_several_keys_must_all_match() -> None:
    stream = pl.DataFrame({"a": [1, 1], "b": ["x", "y"]})
    static = pl.DataFrame({"c": [1, 2], "d": ["x", "y"]})
    keys = (("a", "c", t.LONG), ("b", "d", t.STRING))
    assert join(JoinKind.INNER, stream, static, keys) == [(1, "x", 1, "x")]


def test_a_cross_join_is_bounded_per_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_join, "_MATCHES_MAX", 3)
    assert len(join(JoinKind.CROSS, keys=())) == BIDS.height * PEOPLE.height
    assert join(JoinKind.INNER) == [(1, 10, 1, "ann"), (2, 20, 2, "ben"), (2, 20, 2, "bob")]


RESIDUAL = Call("<", (Column("name", t.STRING), Column("word", t.STRING)), t.BOOLEAN)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (JoinKind.INNER, [(2, "bl", 2, "ben")]),
        (JoinKind.LEFT, [(1, "aa", None, None), (2, "bl", 2, "ben")]),
        (JoinKind.SEMI, [(2, "bl")]),
        (JoinKind.ANTI, [(1, "aa")]),
    ],
)
def test_a_residual_condition_decides_what_a_match_is(kind: JoinKind, expected: list[tuple[Any, ...]]) -> None:
    stream = pl.DataFrame({"bidder": [1, 2], "word": ["aa", "bl"]})
    assert join(kind, stream, condition=RESIDUAL) == expected


def test_an_empty_static_side_matches_nothing() -> None:
    assert join(JoinKind.INNER, static=PEOPLE.clear()) == []
    assert len(join(JoinKind.LEFT, static=PEOPLE.clear())) == BIDS.height


def test_the_split_of_the_rows_is_kept() -> None:
    buffer = io.BytesIO()
    PEOPLE.write_ipc_stream(buffer)
    node = StaticJoin(
        kind=JoinKind.SEMI,
        stream_keys=(Column("bidder", t.LONG),),
        static_keys=(Column("id", t.LONG),),
        null_safe=(False,),
        condition=None,
        table=buffer.getvalue(),
        static_schema=(t.Field("id", t.LONG), t.Field("name", t.STRING)),
        schema=(t.Field("bidder", t.LONG),),
    )
    (out,) = StaticJoinOperator(node).on_batch(Batch(BIDS, origin=5))
    assert isinstance(out, Batch)
    assert out.origin == 5
