"""Every query of the corpus gives on Tidegate what it gives on Spark batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.differential.corpus import corpus
from tests.differential.data import write_tables
from tests.differential.harness import check

pytestmark = pytest.mark.spark
SEED = 20_260_301
CORPUS = corpus()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = tmp_path_factory.mktemp("tables")
    write_tables(root, SEED)
    yield root


@pytest.mark.parametrize("name", CORPUS)
def test_a_query_equals_spark_batch(spark: SparkSession, tables: Path, name: str) -> None:
    check(spark, CORPUS[name].build, tables, **CORPUS[name].options)


def test_the_corpus_is_broad() -> None:
    assert len(CORPUS) >= 60
