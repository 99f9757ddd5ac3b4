#!/usr/bin/env python3
"""The house in numbers: `.venv/bin/python tools/house.py`. Lines and files of each package, class names used twice, questions asked of protocols."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "tidegate"


def main() -> None:
    trees = {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
    lines = {path: len(path.read_text().splitlines()) for path in trees}
    print(f"{'package':<14} {'files':>6} {'lines':>7}")
    for name, paths in by_package(trees).items():
        print(f"{name:<14} {len(paths):>6} {sum(lines[path] for path in paths):>7}")
    production = [path for path in trees if "testing" not in path.relative_to(SOURCE).parts]
    print(f"{'production':<14} {len(production):>6} {sum(lines[path] for path in production):>7}  without testing/")
    print("\nlongest: " + ", ".join(f"{path.relative_to(SOURCE)} {lines[path]}" for path in longest(lines)))
    twice = {name: count for name, count in Counter(classes(trees.values())).items() if count > 1}
    print(f"\nclass names used twice: {len(twice)}: " + ", ".join(sorted(twice)))
    print(f"questions asked of protocols: {sum(map(protocol_checks, trees.values()))}")


def by_package(paths: dict[Path, ast.Module]) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = defaultdict(list)
    for path in paths:
        parts = path.relative_to(SOURCE).parts
        found[parts[0] if len(parts) > 1 else "(top)"].append(path)
    return dict(sorted(found.items()))


def longest(lines: dict[Path, int]) -> list[Path]:
    return sorted(lines, key=lambda path: -lines[path])[:5]


def classes(trees: object) -> Iterator[str]:
    """Of modules, not those inside of functions; names with an underscore are a file's own."""
    for tree in trees:  # type: ignore[attr-defined]
        yield from (one.name for one in tree.body if isinstance(one, ast.ClassDef) and not one.name.startswith("_"))


def protocol_checks(tree: ast.Module) -> int:
    """``@runtime_checkable`` protocols: each is made to be asked about with ``isinstance``."""
    decorated = (one for one in ast.walk(tree) if isinstance(one, ast.ClassDef))
    return sum(ast.unparse(mark) == "runtime_checkable" for one in decorated for mark in one.decorator_list)


if __name__ == "__main__":
    main()
