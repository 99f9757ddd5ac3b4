"""What is installed, for bug reports."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import version

_SHOWN = ("tidegate", "pyspark", "polars", "pyarrow")


def version_lines() -> Iterator[str]:
    for name in _SHOWN:
        yield f"{name} {version(name)}"
    yield f"python {platform.python_version()}"
