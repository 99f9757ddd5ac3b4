"""Compares two results as multisets of rows and shows, readably, where they differ."""

from __future__ import annotations

import decimal
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class Rules:
    """``approximate``: columns equal within 1e-9. ``unordered``: array columns compared as multisets. ``keys``: what identifies a row for people."""

    approximate: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()


EXACT = Rules()


def canonical(value: Any) -> Any:
    """A hashable value; equal exactly when Spark calls the originals the same: one NaN, one zero, decimals by value and scale."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case decimal.Decimal():
            return ("decimal", str(value))
        case bool() | None:
            return value
        case dict():
            return frozenset((canonical(k), canonical(v)) for k, v in value.items())
        case list():
            return ("array", *map(canonical, value))
        case tuple():
            return tuple(map(canonical, value))
        case bytearray():
            return bytes(value)
        case _:
            return value


def difference(
    columns: Sequence[str], expected: Iterable[Sequence[Any]], actual: Iterable[Sequence[Any]], rules: Rules = EXACT
) -> str:
    """Empty when equal; else a report of missing, extra and differing rows."""
    wanted, got = _prepared(columns, expected, rules), _prepared(columns, actual, rules)
    missing, extra = list((wanted - got).elements()), list((got - wanted).elements())
    if rules.approximate:
        missing, extra = _without_close_pairs(columns, missing, extra, rules)
    if not missing and not extra:
        return ""
    return _report(columns, missing, extra, rules, wanted.total(), got.total())


def _prepared(columns: Sequence[str], rows: Iterable[Sequence[Any]], rules: Rules) -> Counter[tuple[Any, ...]]:
    unordered = {index for index, name in enumerate(columns) if name in rules.unordered}

    def one(index: int, value: Any) -> Any:
        if index in unordered and value is not None:
            return ("multiset", *sorted(map(canonical, value), key=repr))
        return canonical(value)

    return Counter(tuple(one(index, value) for index, value in enumerate(row)) for row in rows)


def _without_close_pairs(
    columns: Sequence[str], missing: list[Any], extra: list[Any], rules: Rules
) -> tuple[list[Any], list[Any]]:
    loose = [index for index, name in enumerate(columns) if name in rules.approximate]

    def exact(row: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(value for index, value in enumerate(row) if index not in loose)

    def close(one: Any, other: Any) -> bool:
        if isinstance(one, float) and isinstance(other, float):
            return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
        return one == other

    left: list[Any] = []
    for row in missing:
        partner = next((o for o in extra if exact(o) == exact(row) and all(close(row[i], o[i]) for i in loose)), None)
        if partner is None:
            left.append(row)
        else:
            extra.remove(partner)
    return left, extra


def _report(columns: Sequence[str], missing: list[Any], extra: list[Any], rules: Rules, wanted: int, got: int) -> str:
    keys = [columns.index(name) for name in rules.keys] or [0]
    by_key: dict[Any, list[Any]] = {}
    for row in extra:
        by_key.setdefault(tuple(row[k] for k in keys), []).append(row)
    differing: list[tuple[Any, Any]] = []
    only_missing: list[Any] = []
    for row in missing:
        partners = by_key.get(tuple(row[k] for k in keys))
        if partners:
            differing.append((row, partners.pop()))
        else:
            only_missing.append(row)
    only_extra = [row for rows in by_key.values() for row in rows]
    lines = [f"expected {wanted} rows, got {got}"]
    for title, rows in (("missing", only_missing), ("extra", only_extra)):
        if rows:
            lines.append(f"{title} ({len(rows)}):")
            lines += [f"  {_named(columns, row)}" for row in rows[:SHOWN_MAX]]
    if differing:
        lines.append(f"differing ({len(differing)}):")
        lines += [f"  {_change(columns, keys, old, new)}" for old, new in differing[:SHOWN_MAX]]
    return "\n".join(lines)


def _named(columns: Sequence[str], row: Sequence[Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in zip(columns, row, strict=True))


def _change(columns: Sequence[str], keys: list[int], old: Sequence[Any], new: Sequence[Any]) -> str:
    which = ", ".join(f"{columns[k]}={old[k]!r}" for k in keys)
    what = "; ".join(
        f"{name}: expected {before!r}, got {after!r}"
        for name, before, after in zip(columns, old, new, strict=True)
        if before != after
    )
    return f"[{which}] {what}"
