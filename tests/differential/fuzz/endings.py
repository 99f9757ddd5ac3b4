"""How a random query ends: rows as they are, windows, sessions, running totals, distinct rows; in the modes Spark allows for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import TypeAlias

from tests.differential.fuzz.relations import DELAY, Relation, StreamJoined
from tests.differential.fuzz.terms import BOOLEAN, DATE, DECIMAL, DOUBLE, LONG, STRING, STRINGS, TIMESTAMP, Columns

_CALLS = {
    LONG: "sum({0} % 1000);min({0});max({0});avg({0} % 1000);count({0});count(distinct {0});sum({0} % 1000) filter (where id % 3 = 0)",
    DOUBLE: "min({0});max({0});count({0})",
    STRING: "min({0});max({0});count({0});count(distinct {0});sort_array(collect_set({0}));max_by({0}, struct(id, {0}))",
    BOOLEAN: "bool_and({0});bool_or({0});count_if({0});min({0})",
    TIMESTAMP: "min({0});max({0})",
    DATE: "min({0});max({0});count({0})",
    DECIMAL: "sum({0});min({0});max({0});avg({0})",
    STRINGS: "count({0})",
}


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    text: str
    double: bool = False
    """An average: compared within 1e-9."""


def random_calls(random: Random, columns: Columns) -> tuple[Call, ...]:
    calls = [Call("n", "count(*)")]
    distinct = False
    for number in range(random.randint(0, 3)):
        column = random.choice(sorted(columns))
        text = random.choice(_CALLS[columns[column]].split(";")).format(column)
        # One column at most is counted distinct: Spark refuses more in a stream.
        if "distinct" not in text or not distinct:
            distinct = distinct or "distinct" in text
            calls.append(Call(f"x{number}", text, text.startswith("avg")))
    return tuple(calls)


@dataclass(frozen=True, slots=True)
class Rows:
    """All rows, in append mode."""

    below: Relation
    mode: str = "append"
    keys: tuple[str, ...] = ()
    approximate: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return self.below.text

    def smaller(self) -> Iterator[Ending]:
        yield from (replace(self, below=less) for less in self.below.smaller())


@dataclass(frozen=True, slots=True)
class Distinct:
    below: Relation
    columns: tuple[str, ...]
    subset: bool
    """``dropDuplicates`` of these columns, of which then only they are looked at: which row comes first is free."""
    mode: str = "append"
    keys: tuple[str, ...] = ()
    approximate: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        names = ", ".join(f'"{name}"' for name in self.columns)
        if self.subset:
            return f"{self.below.text}\n    .dropDuplicates([{names}]).select({names})"
        return f"{self.below.text}\n    .select({names}).distinct()"

    def smaller(self) -> Iterator[Ending]:
        if len(self.columns) > 1:
            yield from (replace(self, columns=(name,)) for name in self.columns)
        yield from (
            replace(self, below=less) for less in self.below.smaller() if set(self.columns) <= set(less.columns)
        )


@dataclass(frozen=True, slots=True)
class Grouped:
    """``window``: arguments of ``F.window`` behind the column, or of ``F.session_window`` with ``session``; empty: none at all."""

    below: Relation
    window: tuple[str, ...]
    group_by: tuple[str, ...]
    calls: tuple[Call, ...]
    mode: str
    session: bool = False
    having: str = ""
    grouping: str = "groupBy"
    """Or ``rollup``, ``cube``."""
    again: tuple[str, ...] = ()
    """A second window over the first: how many rows and groups each holds."""

    @property
    def keys(self) -> tuple[str, ...]:
        if self.mode != "update":
            return ()
        return (*(("start", "end") if self.window else ()), *self.group_by)

    @property
    def approximate(self) -> tuple[str, ...]:
        return () if self.again else tuple(call.name for call in self.calls if call.double)

    @property
    def text(self) -> str:
        columns = [f'"{name}"' for name in self.group_by]
        if self.window:
            function = "session_window" if self.session else "window"
            columns.insert(0, f'F.{function}("ts", {_quoted(self.window)}).alias("w")')
        calls = ", ".join(f'F.expr("{call.text}").alias("{call.name}")' for call in self.calls)
        text = f"{self.below.text}\n    .{self.grouping}({', '.join(columns)})\n    .agg({calls})"
        if self.having:
            text += f'\n    .where("{self.having}")'
        if self.again:
            text += f'\n    .groupBy(F.window(F.window_time("w"), {_quoted(self.again)}).alias("v"))'
            text += '\n    .agg(F.expr("sum(n)").alias("n"), F.expr("count(*)").alias("groups"))'
            return f'{text}\n    .selectExpr("v.start as start", "n", "groups")'
        if self.window:
            names = ", ".join(f'"{name}"' for name in (*self.group_by, *(call.name for call in self.calls)))
            text += f'\n    .selectExpr("w.start as start", "w.end as end", {names})'
        return text

    def smaller(self) -> Iterator[Ending]:
        if self.having:
            yield replace(self, having="")
        if self.again:
            yield replace(self, again=())
        if len(self.calls) > 1:
            yield replace(self, calls=self.calls[:1])
            yield from (replace(self, calls=(self.calls[0], one)) for one in self.calls[1:])
        if self.group_by and (len(self.group_by) > 1 or self.window):
            yield from (replace(self, group_by=tuple(o for o in self.group_by if o != one)) for one in self.group_by)
        yield from (replace(self, below=less) for less in self.below.smaller())


Ending: TypeAlias = Rows | Distinct | Grouped


def _quoted(texts: tuple[str, ...]) -> str:
    return ", ".join(f'"{text}"' for text in texts)


def _after_join(random: Random, joined: StreamJoined) -> Ending:
    """Spark streams what follows a join in append mode only."""
    if joined.kind != "inner" or random.random() < 0.5:
        return Rows(joined)
    return Grouped(joined, ("10 seconds",), random.choice(((), ("k",))), random_calls(random, joined.columns), "append")


def random_ending(random: Random, below: Relation) -> Ending:
    if isinstance(below, StreamJoined):
        return _after_join(random, below)
    columns = below.columns
    plain = [name for name in columns if name not in ("id", "ts") and columns[name] != STRINGS]
    group_by = tuple(random.sample(plain, min(len(plain), random.randint(0, 2))))
    calls = random_calls(random, columns)
    kind = random.choice(
        ("rows", "tumbling", "tumbling", "sliding", "session", "running", "running", "distinct", "chained")
    )
    having = random.choice(("", "", "n > 1"))
    match kind:
        case "rows":
            return Rows(below)
        case "distinct":
            return Distinct(below, tuple(random.sample(sorted(columns), random.randint(1, 3))), random.random() < 0.5)
        case "running":
            group_by = group_by or ("k",)
            grouping = random.choice(("groupBy", "groupBy", "rollup", "cube"))
            mode = random.choice(("update", "complete")) if grouping == "groupBy" else "complete"
            return Grouped(below, (), group_by, calls, mode, grouping=grouping)
        case "session":
            gap = f"{random.randint(1, 8)} seconds"
            return Grouped(below, (gap,), group_by, calls, random.choice(("append", "complete")), session=True)
        case "chained":
            return Grouped(
                below, ("5 seconds",), group_by, calls[:1], "append", again=(random.choice(("15 seconds", DELAY)),)
            )
        case _:
            window = ("10 seconds",) if kind == "tumbling" else ("12 seconds", "4 seconds")
            mode = random.choice(("append", "append", "update", "complete"))
            return Grouped(below, window, group_by, calls, mode, having=having if mode == "append" else "")
