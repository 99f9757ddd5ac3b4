"""What a table remembers of a sink's output: the newest attempt and checkpoint in it.

Earlier versions stored the number of the checkpoint alone. Its name still holds it: a table that they wrote goes on, and they can go on
with a table that was written today. Attempt and checkpoint together stand under a second name, and count as long as both names tell
the same number: where they differ, an earlier version has committed since.
"""

from __future__ import annotations

import logging

from tidegate.connectors.lake.notes import attempt_of
from tidegate.model.ids import Attempt, CheckpointId
from tidegate.model.snapshot import Published

log = logging.getLogger("tidegate.connectors")


def remembered(number: int | None, both: Published | None) -> Published | None:
    """``number``: what earlier versions read, too; ``both``: what they do not know. None: the table knows nothing."""
    if number is None or (both is not None and both.checkpoint == number):
        return both
    return numbers_only(number)


def numbers_only(checkpoint: int) -> Published:
    return Published(Attempt(0), CheckpointId(checkpoint))


def newest(known: list[Published]) -> Published | None:
    """Of what stands in several places. Numbers never go down, so one that is above all others is the newest, with or without its attempt."""
    with_attempt = max((one for one in known if one.attempt), default=None)
    number = max((one.checkpoint for one in known if not one.attempt), default=None)
    if with_attempt is not None and (number is None or number <= with_attempt.checkpoint):
        return with_attempt
    return None if number is None else numbers_only(number)


def prepared_for(checkpoint: CheckpointId, notes: tuple[str, ...]) -> Published:
    """What a committable brings; ``notes`` are those of its files. An empty result of output mode complete has none: its number says enough."""
    attempts = {attempt_of(note) for note in notes}
    return Published(max((one for one in attempts if one is not None), default=Attempt(0)), checkpoint)


def is_newer(one: Published, than: Published | None) -> bool:
    if than is None:
        return True
    return one > than if one.attempt and than.attempt else one.checkpoint > than.checkpoint


class Known:
    """The newest output that this process has seen in a table, or brought there: it is done, also should the table be set back meanwhile."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._newest: Published | None = None
        self._said = False

    def newest(self, found: Published | None) -> Published | None:
        """``found``: what the table remembers now. What counts is the newer one."""
        had = self._newest
        if had is None or (found is not None and not is_newer(had, found)):
            self._newest, self._said = found, False
        elif not self._said:
            self._said = True
            warn_of_older_copy(self._table, found, had)
        return self._newest

    def brought(self, newest: Published) -> None:
        self._newest, self._said = newest, False


def warn_of_older_copy(table: str, holds: object, had: Published) -> None:
    """The table was set back by its own means. Its memory was not: nothing is written again, and nothing that comes is skipped."""
    log.warning(
        "the %s was set back: it holds %s, and %s had become visible there. What came between is missing from it and does not come "
        "again; to write it again, start from a savepoint of that time at a new checkpointLocation",
        table,
        holds or "no output of this query any more",
        had,
    )
