"""The corpus: named queries as PySpark users write them. Each must give on Tidegate what it gives on Spark.

A query is a function from ``Sources`` to a DataFrame; ``@query`` says how its result is judged. They stand in ``queries/``, one file per
area; ``corpus()`` reads them all. Keep them small: the value of the corpus is its breadth, and every one starts a real Spark job.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from tests.differential.compare import EXACT, Rules
from tests.differential.harness import Admits, Build, Query

DELAY = "10 seconds"


CORPUS: dict[str, Query] = {}


def query(
    *,
    mode: Literal["append", "update", "complete"] = "append",
    keys: tuple[str, ...] = (),
    rules: Rules = EXACT,
    admits: Admits | None = None,
    partition_by: tuple[str, ...] = (),
    format: Literal["parquet", "memory", "json", ""] = "",
    empty: bool = False,
) -> Callable[[Build], Build]:
    """Registers a query. Without a ``format`` most write to memory, which is quickest, and every eighth to files."""

    def register(build: Build) -> Build:
        name = build.__name__
        assert name not in CORPUS, f"two queries are called {name}"
        in_files = mode == "append" and (bool(partition_by) or zlib.crc32(name.encode()) % 8 == 0)
        CORPUS[name] = Query(
            name, build, mode, keys, rules, admits, partition_by, format or ("parquet" if in_files else "memory"), empty
        )
        return build

    return register


def corpus() -> dict[str, Query]:
    """All queries by name."""
    for path in sorted((Path(__file__).parent / "queries").glob("*.py")):
        importlib.import_module(f"tests.differential.queries.{path.stem}")
    return CORPUS
