"""Seed → random program: sources, up to four steps, an ending."""

from __future__ import annotations

from random import Random

from tests.differential.fuzz.data import COLUMNS
from tests.differential.fuzz.endings import Ending, random_ending
from tests.differential.fuzz.relations import (
    Explode,
    Lookup,
    Relation,
    Repartitioned,
    Select,
    StreamJoined,
    Table,
    United,
    Where,
)
from tests.differential.fuzz.terms import BOOLEAN, LONG, RULES, STRINGS, random_term

JOINS = ("inner", "left", "left_semi", "left_anti")
STREAM_JOINS = ("inner", "inner", "left", "right", "full", "left_semi")


def random_program(seed: int) -> Ending:
    random = Random(seed)
    if random.random() < 0.12:
        sides = [_steps(random, _table(random), most=1) for _ in range(2)]
        joined = StreamJoined(sides[0], sides[1], random.choice(STREAM_JOINS), random.randint(1, 6))
        return random_ending(random, joined)
    return random_ending(random, _steps(random, _table(random), most=4))


def _table(random: Random) -> Table:
    return Table(random.choice(("events", "events", "more")), COLUMNS)


def _steps(random: Random, relation: Relation, most: int) -> Relation:
    for _ in range(random.randint(0, most)):
        relation = _step(random, relation)
    return relation


def _step(random: Random, below: Relation) -> Relation:
    columns = below.columns
    name = f"c{random.randrange(1000)}"
    match random.choice(("select", "select", "where", "where", "explode", "lookup", "union", "repartition")):
        case "select":
            kinds = random.choices(sorted(RULES), k=random.randint(1, 4))
            return Select(
                below, tuple((f"{name}_{n}", random_term(random, kind, columns)) for n, kind in enumerate(kinds))
            )
        case "where":
            return Where(below, random_term(random, BOOLEAN, columns, depth=2))
        case "repartition":
            return Repartitioned(below, random.choice(("3", '"k"', '2, "k", "id"')))
        case "explode":
            function = random.choice(("explode", "explode_outer", "posexplode"))
            return Explode(below, function, random_term(random, STRINGS, columns, depth=2), name)
        case "lookup" if "label" not in columns:
            return Lookup(below, random.choice(JOINS), random_term(random, LONG, columns, depth=1))
        case _:
            other = _steps(random, _table(random), most=1)
            terms = (random_term(random, LONG, columns, depth=2), random_term(random, LONG, other.columns, depth=2))
            return United(below, other, terms, name)
