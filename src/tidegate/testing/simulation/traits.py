"""What is special about the query of a run beside what its seed makes of it anyway, and how people change it between two starts."""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, replace

from tidegate.model.ids import OperatorId
from tidegate.model.types import BOOLEAN
from tidegate.plan.expressions import Call, Named
from tidegate.plan.ordering import Limit
from tidegate.plan.relational import Filter, Project
from tidegate.testing.simulation.relations import Relation, long

PLAIN = 0.4
"""So many runs have nothing special about them."""
PASSED = OperatorId("limit-passed")
"""The stateful operator that people put into a query, and take out again if nothing of it is stored yet."""


@dataclass(frozen=True, slots=True)
class Traits:
    several_sinks: bool = False
    """Two or three results of one input, each into a sink of its own."""
    two_pipelines: bool = False
    """A second query in the same job: another pipeline, another location, the same process and the same outside world."""
    whole_result: bool = False
    """Output mode complete."""
    python: bool = False
    """Scalar Python functions that may fail for a while."""
    dead_letters: bool = False
    """Python functions that refuse rows for good."""
    outer_join: bool = False
    """A right or a full join of two streams."""
    crowded: bool = False
    """Thousands of keys: chunks merge, and what is deleted lies in chunks written long ago."""


def random_traits(seed: int) -> Traits:
    chance = random.Random(seed ^ 0x7A175)
    if chance.random() < PLAIN:
        return Traits()
    names = [one.name for one in fields(Traits)]
    chosen = chance.sample(names, 1 if chance.random() < 0.7 else 2)
    if "crowded" in chosen:
        # Large enough as it is.
        chosen = ["crowded"]
    return Traits(**dict.fromkeys(chosen, True))


@dataclass(frozen=True, slots=True)
class Change:
    """How the query of a start differs from the first one. Its answer is the same, and so is the state of what it had before."""

    filtered: bool = False
    projected: bool = False
    passed: bool = False
    """A stateful operator more: it starts empty, or goes on from what it has stored."""

    def apply(self, of: Relation) -> Relation:
        plan = of.plan
        if self.filtered:
            everything = Call("greaterthanorequal", (of.column("id"), long(-1)), BOOLEAN)
            plan = Filter(condition=everything, schema=plan.schema, inputs=(plan,))
        if self.projected:
            columns = tuple(Named(name, of.column(short)) for name, short in _columns(of))
            plan = Project(columns=columns, schema=plan.schema, inputs=(plan,))
        if self.passed:
            plan = Limit(id=PASSED, count=1_000_000_000, schema=plan.schema, inputs=(plan,))
        return replace(of, plan=plan)


UNCHANGED = Change()


def random_change(chance: random.Random, before: Change) -> Change:
    """Another one. The stateful operator is seldom taken out again: people know that its state would have to go."""
    passed = chance.random() < (0.8 if before.passed else 0.6)
    while True:
        after = Change(chance.random() < 0.5, chance.random() < 0.5, passed)
        if after != before:
            return after


def _columns(of: Relation) -> list[tuple[str, str]]:
    shorts = ("id", "key", "value", "ts")
    return [(field.name, short) for field, short in zip(of.plan.schema, shorts, strict=True)]
