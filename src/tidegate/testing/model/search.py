"""Breadth first through all worlds: the first violation found has a shortest trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidegate.checkpoint.plan import Rules
from tidegate.testing.model.invariants import Laws
from tidegate.testing.model.moves import Moves
from tidegate.testing.model.world import Bounds, World


@dataclass(frozen=True, slots=True)
class Holds:
    """Every reachable world obeys every law."""

    worlds: int
    moves: int
    depth: int


@dataclass(frozen=True, slots=True)
class Violated:
    """``trace``: what happened, step by step; ``law``: what it broke."""

    worlds: int
    trace: tuple[str, ...]
    law: str

    def __str__(self) -> str:
        steps = "\n".join(f"  {number:2d}. {line}" for number, line in enumerate(self.trace, start=1))
        return f"{steps}\n  → {self.law}"


@dataclass(frozen=True, slots=True)
class Exhausted:
    """More worlds than allowed: the bounds are too wide."""

    worlds: int


Verdict: TypeAlias = Holds | Violated | Exhausted


def check(bounds: Bounds, rules: Rules | None = None, *, worlds_max: int = 5_000_000) -> Verdict:
    """Visit every world within ``bounds`` under the real ``step``, with ``rules`` (default: all of them)."""
    moves = Moves(bounds, rules or Rules())
    laws = Laws(moves)
    first = moves.first()
    seen: dict[World, int] = {first: 0}
    came_from: list[tuple[int, str]] = [(0, "")]
    frontier = [first]
    depth = steps = 0
    while frontier:
        following: list[World] = []
        for world in frontier:
            here = seen[world]
            for move in moves.after(world):
                steps += 1
                known = move.world in seen
                # A law may speak about the move itself, so it is asked even when the world is not new.
                if not known or laws.speak_of(move):
                    law = laws.broken_by(move)
                    if law is not None:
                        return Violated(len(seen), (*_trace(came_from, here), move.label), law)
                if not known:
                    seen[move.world] = len(came_from)
                    came_from.append((here, move.label))
                    following.append(move.world)
            if len(seen) > worlds_max:
                return Exhausted(len(seen))
        frontier = following
        depth += 1
    return Holds(len(seen), steps, depth - 1)


def _trace(came_from: list[tuple[int, str]], at: int) -> tuple[str, ...]:
    lines: list[str] = []
    while at:
        at, label = came_from[at]
        lines.append(label)
    return tuple(reversed(lines))
