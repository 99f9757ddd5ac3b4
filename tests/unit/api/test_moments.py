from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidegate.api.moments import iso_moment, short_moment


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_436_918_406_123_999, "2015-07-15T00:00:06.123Z"),
        (253_402_300_799_999_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000_000, "+10000-01-01T00:00:00.000Z"),
        (1_763_562_000_000_000_000, "+57855-01-21T05:20:00.000Z"),
        (-62_135_596_800_000_000, "0001-01-01T00:00:00.000Z"),
        (-62_135_596_800_000_001, "0000-12-31T23:59:59.999Z"),
        (-62_198_755_200_000_000, "-0001-01-01T00:00:00.000Z"),
    ],
)
def test_moments_of_all_years_are_written_as_java_writes_them(us: int, text: str) -> None:
    assert iso_moment(us) == text
    assert short_moment(us) == text[: text.index(".")].replace("T", " ")


def test_known_years_are_written_as_python_writes_them() -> None:
    for us in range(-62_135_596_800_000_000, 253_402_300_800_000_000, 7_777_777_777_777_777):
        at = datetime.fromtimestamp(us // 1_000_000, UTC)
        assert short_moment(us) == at.isoformat(" ").removesuffix("+00:00")
