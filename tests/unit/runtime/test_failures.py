"""What people are told when an operator fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl
import pytest
from tests.property import pipelines as p

from tidegate.model.elements import Batch, Produced, Rejected
from tidegate.model.errors import Bug, DataError, Unavailable, UserCodeFailed
from tidegate.operators.protocol import Operator
from tidegate.operators.user_functions import failure
from tidegate.plan.relational import MapBatches, UdfKind, Union
from tidegate.runtime.chain import Chain, Link
from tidegate.runtime.failures import located
from tidegate.testing.stand_ins import scripted_source

MAPPED = MapBatches(kind=UdfKind.ARROW, label="f", command=b"", input_names=(), schema=(), output_names=())


def caught(error: Exception) -> Exception:
    try:
        raise error
    except Exception as raised:  # noqa: BLE001
        return raised


def test_an_exception_of_user_code_keeps_its_traceback_first() -> None:
    told = located(caught(KeyError("price")), MAPPED, "map(f)", "part-3 row 7")
    assert isinstance(told, UserCodeFailed)
    assert told.message.startswith("Traceback")
    assert "KeyError: 'price'" in told.message
    assert told.message.endswith("in operator map(f), input at part-3 row 7")
    assert (told.operator, told.position) == ("map(f)", "part-3 row 7")


def test_a_named_row_is_the_place_of_the_error_however_batches_are_cut() -> None:
    first = located(failure(caught(KeyError("x")), "f", "row: a=1"), MAPPED, "map(f)", "part-3 row 100")
    again = located(failure(caught(KeyError("x")), "f", "row: a=1"), MAPPED, "map(f)", "part-3 row 900")
    assert first.position == again.position == "row: a=1"
    assert "input at part-3 row 100" in first.message


def test_a_data_error_keeps_its_class_and_hint() -> None:
    told = located(DataError("division by zero", hint="use try_divide"), Union(schema=()), "project", "")
    assert isinstance(told, DataError)
    assert told.hint == "use try_divide"
    assert told.operator == "project"


def test_a_store_that_does_not_answer_is_unavailable_and_user_connectors_are_user_code() -> None:
    scan = p.scan(0, "#1")
    assert isinstance(located(caught(FileNotFoundError("x")), scan, "source-0", ""), Unavailable)
    assert isinstance(
        located(
            caught(FileNotFoundError("x")),
            replace(scan, spec=replace(scripted_source(), calls_user=True)),
            "source-0",
            "",
        ),
        UserCodeFailed,
    )


def test_what_nobody_expected_is_a_bug_with_its_place() -> None:
    told = located(caught(IndexError("x")), Union(schema=()), "union", "")
    assert isinstance(told, Bug)
    assert "in operator union" in told.message


class Rejecting(Operator):
    def on_batch(self, batch: Batch) -> Iterator[Produced]:
        yield Rejected(batch.rows)


def test_rows_rejected_where_nobody_takes_them_are_a_bug_and_not_lost() -> None:
    chain = Chain((Link(Rejecting(), MAPPED, "map(f)", None),), None, lambda: "")
    with pytest.raises(Bug, match="dead-letter"):
        list(chain.feed(Batch(pl.DataFrame({"a": [1]}))))
