"""Runs the examples named on the command line one after the other in this process: one JVM for all of them.

Prints a line ``example <name>: <outcome>`` behind the output of each.
"""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path

from pyspark.sql import SparkSession


def main() -> None:
    for path in map(Path, sys.argv[1:]):
        try:
            runpy.run_path(str(path), run_name="__main__")
            outcome = "ran to its end"
        except SystemExit as ended:
            outcome = "ran to its end" if not ended.code else f"exit code {ended.code}"
        except Exception:  # noqa: BLE001  the next one runs all the same
            outcome = f"failed\n{traceback.format_exc()}"
        print(f"example {path.name}: {outcome}", flush=True)
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()


main()
