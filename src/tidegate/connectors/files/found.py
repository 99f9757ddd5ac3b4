"""Files that a source has seen, wherever they lie."""

from __future__ import annotations

import fnmatch
import re
from itertools import takewhile
from pathlib import PurePosixPath
from typing import NamedTuple

from tidegate.connectors.files.config import FileSourceConfig
from tidegate.model.errors import Unavailable

PATTERN = re.compile(r"[*?\[{]")
"""What makes a path a pattern."""
_BRACES = re.compile(r"\{([^{}]*)\}")


class Found(NamedTuple):
    """A file that was seen. Sorts in the order in which files are read: oldest first, then by name."""

    mtime_ns: int
    path: str
    """Absolute, or a URL."""
    size_bytes: int


def is_hidden(name: str) -> bool:
    """Spark's rule: names it keeps for itself and files still being copied."""
    return (name.startswith("_") and "=" not in name) or name.startswith(".") or name.endswith("._COPYING_")


def is_filtered(path: str, config: FileSourceConfig) -> bool:
    """Whether the user does not want files with this name."""
    wanted = config.name_filter
    return wanted is not None and not fnmatch.fnmatchcase(PurePosixPath(path).name, wanted)


def is_entered(name: str, config: FileSourceConfig) -> bool:
    """Directories ``k=v`` are partitions; others are entered only recursively."""
    return not is_hidden(name) and (config.recursive or "=" in name)


def without_braces(pattern: str) -> list[str]:
    """Hadoop's ``{a,b}``, which Python's patterns do not know, as several patterns."""
    braces = _BRACES.search(pattern)
    if braces is None:
        return [pattern]
    head, tail = pattern[: braces.start()], pattern[braces.end() :]
    return [full for choice in braces[1].split(",") for full in without_braces(head + choice + tail)]


def split_pattern(url: str) -> tuple[str, list[str]]:
    """The directory above the first pattern in a URL without braces, and the patterns below it, one per level."""
    scheme, _, place = url.partition("://")
    root, patterns = split_place(place)
    return f"{scheme}://{root}", patterns


def split_place(place: str) -> tuple[str, list[str]]:
    """The same of a plain path."""
    parts = place.rstrip("/").split("/")
    fixed = list(takewhile(lambda part: not PATTERN.search(part), parts))
    return "/".join(fixed), parts[len(fixed) :]


def matches(name: str, patterns: list[str], depth: int) -> bool:
    """Whether a file or directory is wanted that stands as many levels below the root as ``depth`` says."""
    pattern = patterns[depth]
    last = depth == len(patterns) - 1
    hidden = is_hidden(name) if last else name.startswith(".") and not pattern.startswith(".")
    return fnmatch.fnmatchcase(name, pattern) and not hidden


def would_find(root: str, patterns: list[str], path: str, config: FileSourceConfig) -> bool:
    """Whether a listing of ``root`` may come by ``path``: it does not climb out of the directory by ``..``, nor by a link in a place
    where nobody looks."""
    if not path.startswith(f"{root}/"):
        return False
    parts = path.removeprefix(f"{root}/").split("/")
    depth = len(patterns)
    if len(parts) < max(depth, 1) or any(part in ("", ".", "..") for part in parts):
        return False
    if not all(matches(part, patterns, level) for level, part in enumerate(parts[:depth])):
        return False
    below = parts[depth:]
    return not below or (all(is_entered(part, config) for part in below[:-1]) and not is_hidden(below[-1]))


def unlisted(directory: object, error: OSError) -> Unavailable:
    return Unavailable(
        f"cannot list {directory}: {error.strerror}", hint="the user that runs the driver must be able to read it"
    )
