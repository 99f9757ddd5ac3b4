"""Names that depend on the query alone: Catalyst's own ids differ from session to session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.model.errors import Bug
from tidegate.model.ids import OperatorId
from tidegate.model.types import DataType, Field, Schema
from tidegate.plan.expressions import Column
from tidegate.plan.relational import Plan

INPUT_FILE = -1
"""In a Scope, the column that says which file a row comes from: it has no attribute of Catalyst's, whose ids begin at 0."""
CLOCK = -2
"""The column that says when a row came by."""


@dataclass(slots=True)
class Names:
    """Hands out ``price#3`` and ``source-0`` in the order of a bottom-up, left-to-right walk.

    Operator names are provisional: the finished plan is named by what its operators are (``plan/identity.py``).
    """

    _columns: int = 0
    _operators: Counter[str] = field(default_factory=Counter)

    def column(self, name: str, of: DataType) -> Column:
        number, self._columns = self._columns, self._columns + 1
        return Column(f"{name}#{number}", of)

    def operator(self, kind: str) -> OperatorId:
        number = self._operators[kind]
        self._operators[kind] += 1
        return OperatorId(f"{kind}-{number}")

    def count(self, kind: str) -> int:
        """How many operators of a kind got a name so far."""
        return self._operators[kind]


@dataclass(frozen=True, slots=True)
class Scope:
    """Which column of the plan an attribute of Catalyst is, for the attributes visible at one operator."""

    columns: Mapping[int, Column]

    def __getitem__(self, expr_id: int) -> Column:
        try:
            return self.columns[expr_id]
        except KeyError:
            raise Bug(
                f"the optimised plan refers to an attribute (id {expr_id}) that no operator below it makes"
            ) from None

    @property
    def hidden(self) -> dict[int, Column]:
        """Columns that no projection of the user's lists, and that stay with the rows all the same."""
        return {number: self.columns[number] for number in (INPUT_FILE, CLOCK) if number in self.columns}

    def plus(self, more: Mapping[int, Column]) -> Scope:
        return Scope({**self.columns, **more})


@dataclass(frozen=True, slots=True)
class Relation:
    """A converted operator and the attributes it offers to the one above."""

    plan: Plan
    scope: Scope


def fields_of(columns: Iterable[Column], nullable: Mapping[str, bool] | None = None) -> Schema:
    """The schema of ``columns``, each name once."""
    known = nullable or {}
    unique = {column.name: column for column in columns}
    return tuple(Field(column.name, column.type, known.get(column.name, True)) for column in unique.values())
