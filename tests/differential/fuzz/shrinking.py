"""A failing program made small: fewer operators, simpler terms, fewer rows, as long as the two engines still differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.differential.fuzz.data import Tables
from tests.differential.fuzz.endings import Ending

Fails = Callable[[Ending, Tables], bool]
TRIES_MAX = 300


def shrink(program: Ending, of: Tables, fails: Fails, tries_max: int = TRIES_MAX) -> tuple[Ending, Tables]:
    """``fails`` is asked at most ``tries_max`` times; each answer True is kept and made smaller again."""
    tries = 0

    def still(smaller: Ending, rows: Tables) -> bool:
        nonlocal tries
        tries += 1
        return tries <= tries_max and fails(smaller, rows)

    of = _fewer_rows(program, of, still)
    progress = True
    while progress and tries < tries_max:
        progress = False
        for smaller in sorted(program.smaller(), key=lambda one: len(one.text)):
            if len(smaller.text) < len(program.text) and still(smaller, of):
                program, progress = smaller, True
                break
            if tries >= tries_max:
                break
    return program, _fewer_rows(program, of, still)


def _fewer_rows(program: Ending, of: Tables, still: Fails) -> Tables:
    """Halves, then quarters and so on are left out, of both tables."""
    for name in ("events", "more"):
        size = len(of.of(name))
        while size:
            kept, low = of.of(name), 0
            while low < len(kept):
                fewer = replace(of, **{name: kept[:low] + kept[low + size :]})
                if still(program, fewer):
                    of, kept = fewer, fewer.of(name)
                else:
                    low += size
            size //= 2
    return of
