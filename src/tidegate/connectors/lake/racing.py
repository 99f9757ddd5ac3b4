"""Commits to a table that others change at the same time."""

from __future__ import annotations

from collections.abc import Callable

from tidegate.connectors.lake.storage import in_short
from tidegate.model.errors import Unavailable

TRIES_MAX = 10
"""Other writers may be quicker that often before the coordinator hears of it and asks again later."""


def until_accepted(commit: Callable[[], None], refusals: tuple[type[Exception], ...], table: str) -> None:
    """Calls ``commit`` until it is not refused. Whoever is refused looks at the table anew: somebody changed it meanwhile, perhaps by
    this very commit. Raises ``Unavailable`` after ``TRIES_MAX``.
    """
    for tries in range(1, TRIES_MAX + 1):
        try:
            return commit()
        except refusals as error:
            if tries == TRIES_MAX:
                raise Unavailable(
                    f"the {table} refused {tries} tries to commit: {in_short(error)}",
                    hint="others change it at the same time; it is tried again. Fewer writers, or longer checkpoint "
                    "intervals, help",
                ) from error
    return None
