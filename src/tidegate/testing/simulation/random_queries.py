"""Random queries over all operators that run without Spark, each with the answer a run without failures gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import msgspec
import polars as pl

from tidegate.testing.simulation.keyed import INNER, OUTER, joined_streams
from tidegate.testing.simulation.python_steps import called, sifted
from tidegate.testing.simulation.queries import CROWDED_ENDINGS, ENDINGS, whole_groups
from tidegate.testing.simulation.query import Read, SimulatedQuery
from tidegate.testing.simulation.relations import STEPS, Names, Relation, scan, united
from tidegate.testing.simulation.several import beside
from tidegate.testing.simulation.sources import Script
from tidegate.testing.simulation.traits import UNCHANGED, Change, Traits

NOTHING_SPECIAL = Traits()


def random_query(
    seed: int, *, arrivals: bool = False, pauses: bool = False, traits: Traits = NOTHING_SPECIAL
) -> SimulatedQuery:
    """``arrivals``: splits are discovered over time; ``pauses``: sources fall silent and come back."""

    def make(read: Read | None, change: Change) -> SimulatedQuery:
        chance, names = random.Random(seed), Names()
        two = chance.random() < 0.3 or traits.outer_join
        scripts = [_random_script(chance, arrivals, pauses, scarce=two) for _ in range(1 + two)]
        if traits.crowded:
            scripts = [_crowded(script, chance) for script in scripts]
        first, *others = [
            _steps(names, chance, scan(names, number, script, _limits(number, read)))
            for number, script in enumerate(scripts)
        ]
        first = change.apply(_python(names, chance, first, traits))
        for other in others:
            if traits.outer_join or chance.random() < 0.3:
                kinds = OUTER if traits.outer_join else INNER
                joined = joined_streams(names, first, other, chance, kinds)
                joined = _with_others(joined, first, chance, traits)
                refused = pl.concat([first.refused, other.refused])
                return _complete(joined, scripts, refused, make, traits)
            first = _steps(names, chance, united(names, first, other), most=1)
        ending = chance.choice(CROWDED_ENDINGS if traits.crowded else ENDINGS)
        query = (whole_groups if traits.whole_result else ending)(first, chance)
        rebalanced = two and chance.random() < 0.5
        query = replace(_with_others(query, first, chance, traits), rebalanced=rebalanced)
        return _complete(query, scripts, first.refused, make, traits)

    return make(None, UNCHANGED)


def _complete(
    query: SimulatedQuery,
    scripts: list[Script],
    refused: pl.DataFrame,
    recipe: Callable[[Read | None, Change], SimulatedQuery],
    traits: Traits,
) -> SimulatedQuery:
    return replace(query, scripts=tuple(scripts), refused=refused if traits.dead_letters else None, recipe=recipe)


def _python(names: Names, chance: random.Random, of: Relation, traits: Traits) -> Relation:
    if traits.python or traits.dead_letters:
        of = called(names, of, chance.randint(0, 5), picky=traits.dead_letters)
    if traits.dead_letters and chance.random() < 0.5:
        of = sifted(names, of)
    return of


def _with_others(query: SimulatedQuery, of: Relation, chance: random.Random, traits: Traits) -> SimulatedQuery:
    """Further results of the same rows."""
    if not traits.several_sinks:
        return query
    kinds = [chance.choice(ENDINGS) for _ in range(chance.randint(1, 2))]
    others = tuple(beside(kind(of, chance), of.plan, number) for number, kind in enumerate(kinds, 1))
    name = " beside ".join([query.name, *(one.name for one in others)])
    return replace(query, name=name, others=others)


def _limits(number: int, read: Read | None) -> dict[int, int] | None:
    return None if read is None else read.get(f"source-{number}", {})


def _steps(names: Names, chance: random.Random, relation: Relation, most: int = 2) -> Relation:
    for _ in range(chance.randint(0, most)):
        refused = relation.refused
        relation = replace(chance.choice(STEPS)(names, relation, chance.randint(2, 7)), refused=refused)
    return relation


def _random_script(chance: random.Random, arrivals: bool, pauses: bool, *, scarce: bool) -> Script:
    splits = chance.randint(1, 2 if scarce else 4)
    return Script(
        splits=splits,
        rows_per_split=chance.randint(15, 100),
        keys=chance.choice((1, 3, 20)),
        rows_per_second=chance.choice((5, 10, 20)),
        seed=chance.randint(0, 1_000_000),
        arrivals_ms=tuple(sorted(chance.randint(0, 20_000) for _ in range(splits))) if arrivals else (),
        pause_row=chance.randint(5, 20) if pauses else 0,
        pause_ms=chance.randint(2_000, 12_000) if pauses else 0,
    )


def _crowded(script: Script, chance: random.Random) -> Script:
    """Thousands of rows and of keys in splits that come one after the other: time goes on with each, and checkpoints lie between them."""
    splits = 12 if script.splits > 2 else 7
    return msgspec.structs.replace(
        script,
        splits=splits,
        rows_per_split=200,
        keys=chance.choice((400, 4_000)),
        rows_per_second=200,
        arrivals_ms=tuple(sorted(chance.randint(0, 15_000) for _ in range(splits))),
    )
