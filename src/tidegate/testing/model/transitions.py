"""Which phase follows which, and on what: seen while small worlds are explored, so nothing is drawn that cannot happen."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeAlias

from tidegate.checkpoint import events as ev
from tidegate.checkpoint.events import Event
from tidegate.checkpoint.layout import ManifestRef
from tidegate.checkpoint.phases import Active, State
from tidegate.checkpoint.plan import Rules
from tidegate.testing.model.moves import Moves
from tidegate.testing.model.world import Bounds, World

START = "[*]"
Edges: TypeAlias = dict[tuple[str, str], set[str]]
"""From and to, and the events that lead there."""


@dataclass(slots=True)
class Transitions:
    """``life``: of a coordinator; ``flight``: of one checkpoint."""

    life: Edges = field(default_factory=lambda: defaultdict(set))
    flight: Edges = field(default_factory=lambda: defaultdict(set))

    def see(self, before: State, event: Event, after: State) -> None:
        left, right = type(before).__name__, type(after).__name__
        if left != right:
            self.life[left, right].add(_name(event))
        if isinstance(before, Active) and isinstance(after, Active):
            old, new = _checkpoints(before), _checkpoints(after)
            for ref in sorted({*old, *new}):
                was, becomes = old.get(ref, START), new.get(ref, _end(old[ref]) if ref in old else START)
                if was != becomes:
                    self.flight[was, becomes].add(_name(event))


class _Watched(Moves):
    def __init__(self, bounds: Bounds, transitions: Transitions) -> None:
        super().__init__(bounds, Rules())
        self._transitions = transitions

    def observe(self, before: State, event: Event, after: State) -> None:
        self._transitions.see(before, event, after)


def observed(worlds: tuple[Bounds, ...]) -> Transitions:
    """Explore the worlds and note every step of every coordinator."""
    transitions = Transitions()
    for bounds in worlds:
        moves = _Watched(bounds, transitions)
        first = moves.first()
        seen: set[World] = {first}
        frontier = [first]
        while frontier:
            following = {move.world: None for world in frontier for move in moves.after(world)}
            frontier = [world for world in following if world not in seen]
            seen.update(frontier)
    return transitions


def _checkpoints(state: Active) -> dict[ManifestRef, str]:
    flights = {one.taken.ref: type(one).__name__ for one in state.run.flights}
    commits = {one.taken.ref: "Completed" for one in state.run.commits}
    return flights | commits


def _end(phase: str) -> str:
    """Where a checkpoint is that the coordinator no longer follows."""
    return "Committed" if phase == "Completed" else "GivenUp"


def _name(event: Event) -> str:
    match event:
        case ev.SlotSaid(_, message):
            return type(message).__name__
        case ev.LookAnswered(newer=True):
            return "LookAnswered (newer claim)"
        case ev.LookAnswered():
            return "LookAnswered (nobody)"
        case ev.SavepointRequested(afterwards=afterwards):
            return f"SavepointRequested ({afterwards.value})"
        case _:
            return type(event).__name__
