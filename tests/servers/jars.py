"""Jars of the servers that tests start, from Maven, fetched once per checkout into ``.tools/jars/<name>/``."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".tools" / "jars"
FETCH_SECONDS_MAX = 300


class NoJars(RuntimeError):
    """The jars are not here and cannot be fetched."""


def jars(name: str, pom: Path) -> Path:
    """The directory with all jars that ``pom`` names, fetched if it is not there yet.

    Whoever comes first moves the whole directory into place: others see all of it or nothing.
    """
    home = CACHE / name
    if home.is_dir():
        return home
    maven = shutil.which("mvn")
    if maven is None:
        raise NoJars(f"{name} is not in {CACHE} and there is no mvn to fetch it with: install Maven")
    CACHE.mkdir(parents=True, exist_ok=True)
    fetched = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=CACHE))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={fetched}", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(
            [maven, "-q", "-B", "-f", str(pom), *goal],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=FETCH_SECONDS_MAX,
        )
        if done.returncode or not any(fetched.glob("*.jar")):
            raise NoJars(f"mvn could not fetch the jars of {pom}:\n{done.stdout[-3000:]}")
        try:
            os.rename(fetched, home)  # noqa: PTH104  fails if somebody else was faster, which is as good
        except OSError:
            if not home.is_dir():
                raise
    except subprocess.TimeoutExpired as late:
        raise NoJars(f"mvn did not fetch the jars of {pom} within {FETCH_SECONDS_MAX} s") from late
    finally:
        shutil.rmtree(fetched, ignore_errors=True)
    return home
