"""A store that cannot refuse a second create cannot fence anybody."""

from __future__ import annotations

import pytest

from tidegate.checkpoint.ports import judge, probe
from tidegate.model.errors import InvalidQuery
from tidegate.ports.store import AlreadyThere, Created, CreateOutcome


def test_a_store_that_refuses_the_second_create_is_trusted() -> None:
    judge("/location", Created(), AlreadyThere())


@pytest.mark.parametrize(
    ("first", "second"), [(Created(), Created()), (AlreadyThere(), AlreadyThere()), (AlreadyThere(), Created())]
)
def test_any_other_store_is_refused(first: CreateOutcome, second: CreateOutcome) -> None:
    with pytest.raises(InvalidQuery, match="s3://bucket"):
        judge("s3://bucket", first, second)


def test_a_probe_leaves_the_pipelines_files_alone() -> None:
    assert probe("abc").key == "probe/abc"
    assert probe("abc").first != probe("abc").second
