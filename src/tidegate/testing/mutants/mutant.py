"""A mutant as a value: what is wrong, what harm it does, and where a judge should look for it first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tidegate.testing.model.world import Bounds
from tidegate.testing.mutants.planting import Planting
from tidegate.testing.simulation.faults import Faults

SEEDS_MAX = 600
"""After the suggested seeds the hunt goes on with 0, 1, 2, … up to this many."""


@dataclass(frozen=True, slots=True)
class Worlds:
    """The model check: all worlds within these bounds, one after the other."""

    bounds: tuple[Bounds, ...]


@dataclass(frozen=True, slots=True)
class Seeds:
    """The simulator. ``first``: seeds that found it before; a change anywhere in the code may move the harm to others."""

    first: tuple[int, ...] = ()
    faults: Faults | None = None
    """None: what the seed itself says."""


@dataclass(frozen=True, slots=True)
class TimedSeeds:
    """The simulator's worlds of event time, which know what may be late. ``first`` and ``faults`` as above."""

    first: tuple[int, ...] = ()
    faults: Faults | None = None


@dataclass(frozen=True, slots=True)
class Tests:
    """Tests of this project, by path, or by path and name: those that own the place where the mutant stands."""

    __test__ = False
    paths: tuple[str, ...]


Judge: TypeAlias = Worlds | Seeds | TimedSeeds | Tests


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    against: str
    """The rule or trap it breaks."""
    harm: str
    """What it does to people's rows, in one sentence."""
    judge: Judge
    plant: Callable[[Planting], None]


@dataclass(slots=True)
class Catalogue:
    """The mutants of one part of the protocol, in the order in which they are written down."""

    mutants: list[Mutant] = field(default_factory=list)

    def __call__(self, against: str, harm: str, judge: Judge) -> Callable[[Callable[[Planting], None]], None]:
        def register(plant: Callable[[Planting], None]) -> None:
            name = plant.__name__.replace("_", "-")
            self.mutants.append(Mutant(name, against, harm, judge, plant))

        return register


def worlds(*bounds: Bounds) -> Worlds:
    return Worlds(bounds)


def seeds(*first: int, faults: Faults | None = None) -> Seeds:
    return Seeds(first, faults)


def timed(*first: int, faults: Faults | None = None) -> TimedSeeds:
    return TimedSeeds(first, faults)


def tests(*paths: str) -> Tests:
    return Tests(paths)
