"""The corpus: named queries as PySpark users write them. Each must give on Tidegate what it gives on Spark.

A query is a function from ``Sources`` to a DataFrame; ``@query`` says how its result is judged. They stand in ``queries/``, one file per
area; ``corpus()`` reads them all. Keep them small: the value of the corpus is its breadth, and every one starts a real Spark job.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.differential.compare import EXACT, Rules
from tests.differential.harness import Admits, Build

DELAY = "10 seconds"


@dataclass(frozen=True)
class Query:
    name: str
    build: Build
    options: dict[str, Any] = field(default_factory=dict)


CORPUS: dict[str, Query] = {}


def query(
    *,
    mode: str = "append",
    keys: tuple[str, ...] = (),
    rules: Rules = EXACT,
    admits: Admits | None = None,
    partition_by: tuple[str, ...] = (),
    format: str = "parquet",
    empty: bool = False,
) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        name = build.__name__
        assert name not in CORPUS, name
        options = {"mode": mode, "keys": keys, "rules": rules, "admits": admits, "partition_by": partition_by}
        CORPUS[name] = Query(name, build, {**options, "format": format, "empty": empty})
        return build

    return register


def corpus() -> dict[str, Query]:
    """All queries by name."""
    for path in sorted((Path(__file__).parent / "queries").glob("*.py")):
        importlib.import_module(f"tests.differential.queries.{path.stem}")
    return CORPUS
