"""Operators that need all rows in one place: ``orderBy`` and ``limit``. Each stands at the head of its stage, behind an edge keyed by nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidegate.model.ids import OperatorId
from tidegate.model.types import Schema

if TYPE_CHECKING:
    from tidegate.plan.relational import Plan


@dataclass(frozen=True, slots=True)
class SortKey:
    column: str
    ascending: bool = True
    nulls_first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort:
    """A whole result in order, or the first ``limit`` rows of it; in output mode ``complete`` only.

    Collects rows between two barriers and sends them on before the second. Keeps nothing beyond it. Without ``order`` any rows are the
    first.
    """

    order: tuple[SortKey, ...]
    limit: int | None
    schema: Schema
    inputs: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The first ``count`` rows of a stream, whichever they are, over all restarts."""

    id: OperatorId
    count: int
    schema: Schema
    pinned: bool = False
    inputs: tuple[Plan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialLimit:
    """Of one subtask at most ``count`` rows before the exchange: nobody needs more of them. Stateless: a new attempt counts again."""

    count: int
    schema: Schema
    inputs: tuple[Plan, ...] = ()
