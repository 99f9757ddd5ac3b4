"""The auditor of order at the sink: what one subtask wrote becomes visible in the order in which it wrote it.

Across checkpoints, retries and restarts. Two orders count: that of commits, by which output appears, and that of the log, in which a
reader of a partition finds the rows.
"""

from __future__ import annotations

from tidegate.testing.simulation.sinks import SimulatedOutside


def disorder(outside: SimulatedOutside) -> list[str]:
    """What stands in the wrong order, in words."""
    return [*_commits(outside), *_log(outside)]


def _commits(outside: SimulatedOutside) -> list[str]:
    found: list[str] = []
    newest: dict[tuple[str, str, int], tuple[int, int]] = {}
    for one in outside.visible:
        place, age = (one.pipeline, one.sink, one.subtask), (one.attempt, one.checkpoint)
        if (before := newest.get(place, age)) > age:
            found.append(f"{one} appears after checkpoint {before[1]} of attempt {before[0]}, which was written later")
        newest[place] = max(age, before)
    return found


def _log(outside: SimulatedOutside) -> list[str]:
    """A reader who sees committed rows only reads each writer's batches in rising order, and all of them."""
    shown: dict[tuple[str, str, int, int], set[int]] = {}
    for one in outside.visible:
        writer = (one.pipeline, one.sink, one.attempt, one.subtask)
        # What was visible before this world began has no batches in it.
        shown.setdefault(writer, set()).update(outside.batches.get(one, ()))
    found: list[str] = []
    highest: dict[tuple[str, str, int, int], int] = {}
    for writer, number in outside.log:
        if number not in shown.get(writer, ()):
            continue
        if (before := highest.get(writer, -1)) > number:
            found.append(f"batch {number} of subtask {writer[3]} stands behind batch {before}, which was written later")
        highest[writer] = max(number, before)
        shown[writer].discard(number)
    found += [
        f"batches {sorted(left)[:3]} of {writer} are committed and never arrived"
        for writer, left in shown.items()
        if left
    ]
    return found
