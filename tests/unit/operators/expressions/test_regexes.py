"""Java's patterns in Polars' engine."""

from __future__ import annotations

import pytest

from tidegate.operators.expressions.regexes import like, reason_against, replacement, translate


def test_classes_are_ascii_as_in_java() -> None:
    assert translate(r"\d+[\w-]\S") == r"[0-9]+[A-Za-z0-9_-][^ \t\n\x0B\f\r]"


@pytest.mark.parametrize("pattern", ["a++", "(?=x)", "(?i)x", r"(a)\1", r"\p{Alpha}", r"[\D]", "[", r"\Qx\E"])
def test_what_would_mean_something_else_is_refused(pattern: str) -> None:
    assert reason_against(pattern) is not None


def test_references_to_groups_are_rewritten() -> None:
    assert replacement(r"<$1>\$x") == "<${1}>$$x"


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("abc", "equal"),
        ("a%", "prefix"),
        ("%a", "suffix"),
        ("%a%", "infix"),
        ("a_", "regex"),
        ("a%b", "regex"),
        (r"a\%", "equal"),
    ],
)
def test_simple_like_patterns_need_no_regular_expression(pattern: str, kind: str) -> None:
    assert like(pattern)[0] == kind
