#!/usr/bin/env python3
"""`make test`: four pytest processes side by side. Tests of whole queries mostly wait for Spark; the others can run meanwhile.

Prints each process's report whole when it ends, then the sum. Exit code 0 only if all passed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXPRESSIONS = "tests/integration/test_expressions_against_spark.py"
CONNECTORS = "tests/integration/connectors"
MUTANTS = "tests/simulation/test_mutants.py"
GROUPS = (
    ("core, expressions", ("tests/unit", "tests/property", "tests/simulation", f"--ignore={MUTANTS}", EXPRESSIONS)),
    ("differential, mutants", ("tests/differential", MUTANTS)),
    ("Spark", ("tests/integration", f"--ignore={EXPRESSIONS}", f"--ignore={CONNECTORS}")),
    ("whole programs, connectors", ("tests/e2e", CONNECTORS)),
)
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped)")


def main() -> int:
    began_s = time.monotonic()
    reports = [Path(tempfile.mkstemp(prefix="tidegate-tests-", suffix=".log")[1]) for _ in GROUPS]
    running = [start(folders, report, sys.argv[1:]) for (_, folders), report in zip(GROUPS, reports, strict=True)]
    totals: dict[str, int] = {"passed": 0, "failed": 0, "skipped": 0}
    codes: list[int] = []
    try:
        for (name, _), process, report in zip(GROUPS, running, reports, strict=True):
            codes.append(process.wait())
            text = report.read_text()
            report.unlink()
            print(f"--- {name} (exit code {codes[-1]}) ---\n{text}", flush=True)
            for number, what in COUNT.findall(text.splitlines()[-1] if text.strip() else ""):
                totals["failed" if what.startswith("error") else what] += int(number)
    except KeyboardInterrupt:
        for process in running:
            process.terminate()
        return 130
    print(f"{time.monotonic() - began_s:.0f} seconds")
    print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped", flush=True)
    return max(map(abs, codes))


def start(folders: tuple[str, ...], report: Path, options: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest", *folders, "-m", "not soak", "--durations=5", *options]
    with report.open("wb") as out:
        return subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


if __name__ == "__main__":
    sys.exit(main())
