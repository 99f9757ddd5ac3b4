"""How Java starts for tests: hundreds of small jobs in sessions that live for minutes."""

from __future__ import annotations

import os

_VARIABLE = "JAVA_TOOL_OPTIONS"
_FIRST_COMPILER_ONLY = "-XX:TieredStopAtLevel=1"


def prefer_short_lives() -> None:
    """Only the quick compiler for every JVM started from here on, by drivers in processes of their own too.

    Half of what a young Spark session computes is the second, thorough compiler at work on code that a test runs once. Nothing else
    changes. A measurement of speed must not call this.
    """
    chosen = os.environ.get(_VARIABLE, "")
    if "TieredStopAtLevel" not in chosen:
        os.environ[_VARIABLE] = f"{chosen} {_FIRST_COMPILER_ONLY}".strip()
