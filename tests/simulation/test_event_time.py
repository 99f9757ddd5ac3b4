"""Small worlds of event time: files in any order, bursts, silence, quiet streams, logs that do not answer, and processes that die.

A judge that knows only the world says which rows may be late. All others must be in the output, once; and when the input rests, event time
must stand where the rows say.
"""

from __future__ import annotations

import pytest

from tidegate.testing.mutants.barriers import CRASHES
from tidegate.testing.simulation.checked import checked_time
from tidegate.testing.simulation.timed_campaign import WORLDS
from tidegate.testing.simulation.timed_run import TimedSimulation
from tidegate.testing.simulation.timed_worlds import random_world

SEEDS = range(40)

PINNED = [
    42,  # A log that had been idle was read again behind a slow channel: the judge must not call that a fault.
    53,  # A drained stream ended and no longer held the other: rows that Spark keeps were late.
    119,  # A grant made of a reader's time overtook that reader's first rows after a rest.
    163,  # A log that was idle with its first poll after a restore did not tell the time it had reached.
    224,  # A stream that ended without a single row did not count: windows of the other closed.
    397,  # A log that was idle fell silent, and was still idle when its rows were there and not told.
]
"""Seeds that found something real, in the code or in the judge."""


@pytest.mark.parametrize("seed", [*SEEDS, *PINNED])
def test_no_row_that_is_on_time_is_lost_and_time_goes_on(seed: int) -> None:
    """T26 T27 T69 T70 T71 T72 T85 T86."""
    verdict = checked_time(seed)
    assert not verdict.violations, f"replay: make simulate SEED={seed} EVENT_TIME=1\n" + "\n".join(verdict.violations)


@pytest.mark.parametrize(
    "seed",
    [
        205,  # A restored log said once more that it was empty, and was idle at once, as it may be: the judge called that a fault.
        251,  # The driver's word came while a log had rows, and never again: from its next rest on the log held everybody.
    ],
)
def test_seeds_of_processes_that_die_and_nothing_else(seed: int) -> None:
    """T71."""
    verdict = TimedSimulation(seed, faults=CRASHES).run()
    assert not verdict.violations


def test_a_campaign_has_every_kind_of_world() -> None:
    """A judge sees nothing in worlds that never occur: the old one never met a row out of order."""
    seen = {kind for seed in range(300) for kind in random_world(seed).kinds}
    assert set(WORLDS) - seen == {"full channels"}, "full channels are a matter of the configuration"


def test_the_judge_lets_some_rows_be_late_and_not_all_of_them() -> None:
    """Whoever excuses all rows finds nothing; whoever excuses none asks for more than Spark gives."""
    judged = late = 0
    for seed in range(12):
        paths = checked_time(seed).tally.paths
        judged += paths["rows judged in event time"]
        late += paths["rows that may be late"]
    assert 0.1 * judged < late < 0.85 * judged
