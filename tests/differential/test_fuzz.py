"""Random programs give on Tidegate what they give on Spark batch; and the judge would notice if they did not. `make fuzz` runs thousands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from tests.differential.fuzz.campaign import Campaign
from tests.differential.fuzz.data import COLUMNS, tables
from tests.differential.fuzz.endings import Ending, Rows
from tests.differential.fuzz.generator import random_program
from tests.differential.fuzz.judge import EQUAL, REFUSED
from tests.differential.fuzz.relations import Select, Table, Where
from tests.differential.fuzz.shrinking import shrink
from tests.differential.fuzz.terms import BOOLEAN, LONG, RULES, Term
from tests.differential.harness import quickly

SEEDS = 40


@pytest.fixture(scope="module")
def campaign(spark: SparkSession) -> Iterator[Campaign]:
    with quickly(spark):
        made = Campaign(spark)
        yield made
        made.close()


@pytest.mark.spark
def test_random_programs_equal_spark_batch(campaign: Campaign) -> None:
    failures = [failure for seed in range(SEEDS) if (failure := campaign.run(seed))]
    assert not failures, "\n".join(failures)
    tally = campaign.tally
    assert tally.counts[EQUAL] - tally.empty >= SEEDS // 2, tally.summary()
    assert tally.counts[REFUSED] <= SEEDS // 8, tally.summary()


def test_a_seed_is_one_program() -> None:
    texts = [random_program(seed).text for seed in range(200)]
    assert texts == [random_program(seed).text for seed in range(200)]
    assert len(set(texts)) > 190


def test_programs_contain_every_operator_and_nearly_every_function() -> None:
    """What is never generated is never checked."""
    texts = "\n".join(random_program(seed).text for seed in range(2_000))
    for operator in (
        ".where(",
        "explode(",
        ".union(",
        "left_anti",
        "session_window",
        ".distinct()",
        "dropDuplicates",
        '"full"',
    ):
        assert operator in texts, operator
    for mode in ("append", "update", "complete"):
        assert any(random_program(seed).mode == mode for seed in range(100))
    rules = {
        rule.split("(")[0] for rules in RULES.values() for rule in rules if "(" in rule and not rule.startswith("{")
    }
    assert len([rule for rule in rules if f"{rule}(" not in texts]) <= len(rules) // 50


def test_a_failing_program_is_made_small() -> None:
    """Here everything fails that still has a ``pmod`` in it, over rows that still have id 7."""
    guilty = Term(LONG, "pmod({L}, 7)", (Term(LONG, "a"),))
    table = Table("events", COLUMNS)
    sum_ = Term(LONG, "{L} + {L}", (Term(LONG, "abs({L})", (guilty,)), Term(LONG, "g")))
    kept = Term(BOOLEAN, "{L} > {L}", (Term(LONG, "a"), Term(LONG, "0")))
    program: Ending = Rows(Where(Select(Where(table, kept), (("x", sum_), ("y", Term(LONG, "1")))), kept))
    small, rows = shrink(
        program, tables(5), lambda one, of: "pmod" in one.text and any(row["id"] == 7 for row in of.events)
    )
    assert small == Rows(Select(table, (("x", guilty),)))
    assert [row["id"] for row in rows.events] == [7]
    assert rows == replace(rows, more=[])
