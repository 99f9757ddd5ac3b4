from __future__ import annotations

import logging

import pytest

from tidegate.connectors.options import Options
from tidegate.model.errors import InvalidQuery


def test_names_ignore_case_as_in_spark() -> None:
    options = Options({"RowsPerSecond": "5", "HEADER": "True"}, "rate source")
    assert options.integer("rowspersecond", 1) == 5
    assert options.flag("header") is True


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda o: o.integer("n", 1), "'n' .* 'x'"),
        (lambda o: o.flag("n"), "'n' .* 'x'"),
        (lambda o: o.choice("n", "a", ("a", "b")), "'n' .* 'x'"),
        (lambda o: o.integer("negative", 1), "'-1'"),
        (lambda o: o.character("long", ","), "'ab'"),
        (lambda o: o.required("absent", "say it"), "needs the option 'absent'"),
        (lambda o: o.refuse("n", hint="leave it out"), "'n' .* not supported"),
    ],
)
def test_a_wrong_value_is_named_with_its_option_and_a_way_out(ask: object, message: str) -> None:
    options = Options({"n": "x", "negative": "-1", "long": "ab"}, "csv source")
    with pytest.raises(InvalidQuery, match=message) as raised:
        ask(options)  # type: ignore[operator]
    assert raised.value.hint and "csv source" in raised.value.message


def test_other_values_than_the_default_are_refused_words_in_any_case() -> None:
    options = Options({"wholetext": "False", "nanValue": "nan"}, "csv source")
    options.refuse_others({"wholetext": "false", "multiLine": "false"}, hint="leave it out")
    with pytest.raises(InvalidQuery, match="nanValue") as raised:
        options.refuse_others({"nanValue": "NaN"}, hint="leave it out")
    assert "nanValue=NaN" in raised.value.hint


def test_unknown_options_are_ignored_aloud_and_our_own_silently(caplog: pytest.LogCaptureFixture) -> None:
    options = Options({"heder": "true", "path": "/x", "tidegate.pipeline": "p"}, "csv source")
    options.text("path")
    with caplog.at_level(logging.WARNING):
        options.warn_unknown()
    assert "heder" in caplog.text and "path" not in caplog.text and "pipeline" not in caplog.text


def test_options_under_a_prefix_keep_the_case_that_the_user_gave_them(caplog: pytest.LogCaptureFixture) -> None:
    options = Options({"Catalog.uri": "u", "catalog.s3.access-key-id": "K", "catalogue": "x"}, "iceberg sink")
    assert options.prefixed("catalog.") == {"uri": "u", "s3.access-key-id": "K"}
    options.warn_unknown()
    assert "catalogue" in caplog.text and "access-key" not in caplog.text
