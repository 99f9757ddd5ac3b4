"""Every query of the corpus gives on Tidegate what it gives on Spark batch; a third of them, another each day, also through kills.

All run in one thread, without Spark's stage: translated by Spark, read and computed by the real sources and operators. Those
of ``ON_SPARK``, every kind of operator, source, sink and mode among them, run as whole queries on Spark too; `make soak` runs the rest there.

``TIDEGATE_THIRD=0|1|2`` chooses the third; without it the day of the year does. It stands in the names of the tests.
"""

from __future__ import annotations

import datetime
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from tests.differential import local
from tests.differential.corpus import corpus
from tests.differential.data import write_tables
from tests.differential.harness import Oracle, Sources, run_tidegate
from tests.differential.killing import run_killed
from tests.differential.kinds import kinds_of
from tests.differential.on_spark import ON_SPARK

from tidegate.plan.relational import Sink
from tidegate.testing.local import random_fate

pytestmark = pytest.mark.spark
SEED = 20_260_301
CORPUS = corpus()
THIRD = int(os.environ.get("TIDEGATE_THIRD", datetime.date.today().timetuple().tm_yday)) % 3
CHOSEN = [name for name in CORPUS if zlib.crc32(name.encode()) % 3 == THIRD]
KILLED_ON_SPARK = [name for name in CHOSEN if CORPUS[name].format == "parquet" and not CORPUS[name].partition_by][:4]


def _named(name: str) -> str:
    return f"third {THIRD}-{name}"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("tables")
    write_tables(root, SEED)
    yield root


@pytest.fixture(scope="module")
def oracle(spark: SparkSession, tables: Path) -> Oracle:
    return Oracle(spark, tables)


class Plans:
    """Of the corpus's queries, each translated once."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.known: dict[str, Sink] = {}

    def __getitem__(self, name: str) -> Sink:
        if name not in self.known:
            query = CORPUS[name]
            self.known[name] = local.translated(query.build(self._sources), query.mode)
        return self.known[name]


@pytest.fixture(scope="module")
def plans(spark: SparkSession, tables: Path) -> Plans:
    return Plans(Sources(spark, tables, streaming=True))


@pytest.mark.parametrize("name", CORPUS)
def test_a_query_equals_spark_batch(plans: Plans, oracle: Oracle, name: str) -> None:
    columns, rows, _ = local.run(plans[name])
    oracle.judge(CORPUS[name], columns, rows)


@pytest.mark.parametrize("name", CHOSEN, ids=_named)
def test_a_query_killed_twice_and_restored_at_other_parallelisms_equals_spark_batch(
    plans: Plans, oracle: Oracle, name: str
) -> None:
    """Everything but the checkpoints is thrown away, twice, and the sources are read on."""
    fate = random_fate(Random(f"{name} {THIRD}"), kills=2)
    columns, rows, _ = local.run(plans[name], fate)
    try:
        oracle.judge(CORPUS[name], columns, rows)
    except AssertionError as difference:
        difference.add_note(f"with {fate}")
        raise


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in ON_SPARK else pytest.mark.soak) for n in CORPUS])
def test_a_whole_query_on_spark_equals_spark_batch(
    spark: SparkSession, tables: Path, oracle: Oracle, name: str
) -> None:
    query = CORPUS[name]
    columns, rows = run_tidegate(
        query.build(Sources(spark, tables, streaming=True)),
        mode=query.mode,
        partition_by=query.partition_by,
        format=query.format,
    )
    oracle.judge(query, columns, rows)


@pytest.mark.parametrize("name", KILLED_ON_SPARK, ids=_named)
def test_a_query_whose_slot_is_killed_and_that_starts_again_with_fewer_slots_equals_spark_batch(
    spark: SparkSession, tables: Path, oracle: Oracle, name: str, tmp_path: Path
) -> None:
    """On Spark, with ``kill -9``; then stopped in the middle and started again with one slot instead of two."""
    query = CORPUS[name]
    columns, rows = run_killed(spark, query, tables, tmp_path)
    oracle.judge(query, columns, rows)


def test_every_kind_of_operator_source_and_sink_also_runs_on_spark(plans: Plans) -> None:
    if plans.known.keys() != CORPUS.keys():
        pytest.skip("only a part of the corpus has run")
    kinds = {name: kinds_of(CORPUS[name], plan) for name, plan in plans.known.items()}
    everywhere = frozenset().union(*kinds.values())
    assert everywhere - frozenset().union(*(kinds[name] for name in ON_SPARK)) == set()
    assert len(everywhere) >= 30


def test_the_corpus_is_broad() -> None:
    assert len(CORPUS) >= 300
    assert len(ON_SPARK) >= 60 and CORPUS.keys() >= ON_SPARK


def test_a_third_is_about_a_third() -> None:
    assert 0.25 * len(CORPUS) < len(CHOSEN) < 0.42 * len(CORPUS)
    assert len(KILLED_ON_SPARK) >= 3
