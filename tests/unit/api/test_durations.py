from __future__ import annotations

import pytest

from tidegate.api.durations import parse_duration_ms, show_duration
from tidegate.model.errors import InvalidQuery


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("1 second", 1_000),
        ("500 milliseconds", 500),
        ("2 minutes", 120_000),
        ("1 minute 30 seconds", 90_000),
        ("INTERVAL 3 Seconds", 3_000),
        ("0.5 seconds", 500),
        ("100ms", 100),
        ("1 day", 86_400_000),
    ],
)
def test_durations_are_read_as_pyspark_users_write_them(text, milliseconds):
    assert parse_duration_ms(text, "it") == milliseconds


@pytest.mark.parametrize("text", ["", "soon", "1", 5, None, "1 second and a half", "-1 second", "0 seconds", "1 month"])
def test_what_is_no_duration_is_refused_with_an_example(text):
    with pytest.raises(InvalidQuery, match="option x") as refused:
        parse_duration_ms(text, "option x")
    assert "1 second" in refused.value.hint


def test_durations_are_shown_for_people():
    assert [show_duration(ms) for ms in (12.3, 2_400, 180_000)] == ["12 ms", "2.4 s", "3 min"]
