"""Random queries as trees that print themselves as PySpark: what is run is exactly what a failure shows.

Each node knows its columns and how to become smaller; a smaller one that lacks a column that is used above fails on Spark too, which ends
that attempt. ``id``, ``ts`` and ``k`` are kept by every row-wise step, so that windows, keys and joins
find what they need however long the query is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from tests.differential.fuzz.terms import LONG, STRING, TIMESTAMP, Columns, Term

KEPT = ("id", "ts", "k")
DELAY = "10 seconds"


@dataclass(frozen=True, slots=True)
class Table:
    """A stream of the fuzz data; ``columns`` are those of ``data.COLUMNS``."""

    name: str
    columns: Columns

    @property
    def text(self) -> str:
        return f's.table("{self.name}").withWatermark("ts", "{DELAY}")'

    def smaller(self) -> Iterator[Relation]:
        return iter(())


@dataclass(frozen=True, slots=True)
class Select:
    """``id``, ``ts``, ``k`` and the named terms."""

    below: Relation
    terms: tuple[tuple[str, Term], ...]

    @property
    def columns(self) -> Columns:
        return {name: self.below.columns[name] for name in KEPT} | {name: term.type for name, term in self.terms}

    @property
    def text(self) -> str:
        texts = [f'"{name}"' for name in KEPT] + [f'"{term.text} as {name}"' for name, term in self.terms]
        return f"{self.below.text}\n    .selectExpr({', '.join(texts)})"

    def smaller(self) -> Iterator[Relation]:
        yield self.below
        if len(self.terms) > 1:
            yield from (replace(self, terms=(one,)) for one in self.terms)
        for index, (name, term) in enumerate(self.terms):
            for less in term.smaller():
                yield replace(self, terms=(*self.terms[:index], (name, less), *self.terms[index + 1 :]))
        yield from (replace(self, below=less) for less in self.below.smaller())


@dataclass(frozen=True, slots=True)
class Where:
    below: Relation
    condition: Term

    @property
    def columns(self) -> Columns:
        return self.below.columns

    @property
    def text(self) -> str:
        return f'{self.below.text}\n    .where("{self.condition.text}")'

    def smaller(self) -> Iterator[Relation]:
        yield self.below
        yield from (replace(self, condition=less) for less in self.condition.smaller())
        yield from (replace(self, below=less) for less in self.below.smaller())


@dataclass(frozen=True, slots=True)
class Repartitioned:
    """The same rows in other tasks. ``how``: arguments of ``repartition``."""

    below: Relation
    how: str

    @property
    def columns(self) -> Columns:
        return self.below.columns

    @property
    def text(self) -> str:
        return f"{self.below.text}\n    .repartition({self.how})"

    def smaller(self) -> Iterator[Relation]:
        yield self.below
        yield from (replace(self, below=less) for less in self.below.smaller())


@dataclass(frozen=True, slots=True)
class Explode:
    """One row per element of an array, under ``name``."""

    below: Relation
    function: str
    array: Term
    name: str

    @property
    def columns(self) -> Columns:
        return {name: self.below.columns[name] for name in KEPT} | {self.name: STRING}

    @property
    def text(self) -> str:
        position = f"pos_{self.name}, " if self.function.startswith("pos") else ""
        names = f"({position}{self.name})" if position else self.name
        kept = ", ".join(f'"{name}"' for name in KEPT)
        return f'{self.below.text}\n    .selectExpr({kept}, "{self.function}({self.array.text}) as {names}")'

    def smaller(self) -> Iterator[Relation]:
        yield self.below
        yield from (replace(self, array=less) for less in self.array.smaller())
        yield from (replace(self, below=less) for less in self.below.smaller())


@dataclass(frozen=True, slots=True)
class United:
    """Both sides cut to the kept columns and one number."""

    left: Relation
    right: Relation
    terms: tuple[Term, Term]
    name: str

    @property
    def columns(self) -> Columns:
        return {name: self.left.columns[name] for name in KEPT} | {self.name: LONG}

    @property
    def text(self) -> str:
        kept = ", ".join(f'"{name}"' for name in KEPT)
        sides = [
            f'{side.text}\n    .selectExpr({kept}, "cast({term.text} as bigint) as {self.name}")'
            for side, term in zip((self.left, self.right), self.terms, strict=True)
        ]
        return f"{sides[0]}\n    .union({sides[1]})"

    def smaller(self) -> Iterator[Relation]:
        for side, term in zip((self.left, self.right), self.terms, strict=True):
            yield Select(side, ((self.name, Term(LONG, "cast({L} as bigint)", (term,))),))
        for index, term in enumerate(self.terms):
            for less in term.smaller():
                yield replace(self, terms=(less, self.terms[1]) if index == 0 else (self.terms[0], less))
        yield from (replace(self, left=less) for less in self.left.smaller())
        yield from (replace(self, right=less) for less in self.right.smaller())


@dataclass(frozen=True, slots=True)
class Lookup:
    """A join with a static table: ``g bigint, label string, weight bigint``."""

    below: Relation
    kind: str
    key: Term

    @property
    def columns(self) -> Columns:
        found = {} if self.kind in ("left_semi", "left_anti") else {"label": STRING, "weight": LONG}
        return {**self.below.columns, **found}

    @property
    def text(self) -> str:
        keyed = f'{self.below.text}\n    .withColumn("look", F.expr("{self.key.text}"))'
        table = 's.static("labels").withColumnRenamed("g", "look")'
        return f'{keyed}\n    .join({table}, "look", "{self.kind}")\n    .drop("look")'

    def smaller(self) -> Iterator[Relation]:
        yield self.below
        yield from (replace(self, key=less) for less in self.key.smaller())
        yield from (replace(self, below=less) for less in self.below.smaller())


@dataclass(frozen=True, slots=True)
class StreamJoined:
    """Two streams on ``k`` and times at most ``apart_s`` seconds from each other. Of an inner join more may be asked; of
    the others all columns are shown, ``l_…`` and ``r_…``."""

    left: Relation
    right: Relation
    kind: str
    apart_s: int

    @property
    def columns(self) -> Columns:
        return {"id": LONG, "ts": TIMESTAMP, "k": STRING, "other": LONG}

    @property
    def text(self) -> str:
        left = f'{self.left.text}\n    .selectExpr("id as l_id", "ts as l_ts", "k as l_k")'
        right = f'{self.right.text}\n    .selectExpr("id as r_id", "ts as r_ts", "k as r_k")'
        near = f"r_ts between l_ts - interval {self.apart_s} seconds and l_ts + interval {self.apart_s} seconds"
        joined = f'{left}\n    .join({right},\n        F.expr("l_k = r_k and {near}"), "{self.kind}")'
        if self.kind != "inner":
            return joined
        return f'{joined}\n    .selectExpr("l_id as id", "l_ts as ts", "l_k as k", "r_id as other")'

    def smaller(self) -> Iterator[Relation]:
        yield from (replace(self, left=less) for less in self.left.smaller())
        yield from (replace(self, right=less) for less in self.right.smaller())


Relation: TypeAlias = Table | Select | Where | Repartitioned | Explode | United | Lookup | StreamJoined
