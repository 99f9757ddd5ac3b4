"""Which rows of whole splits may be late, from what was found by which look: never from what the engine made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

NEVER = -(1 << 62)
MILLISECOND_US = 1_000
LOOKS_MAX = 4


@dataclass
class Looks:
    """What each look found that no look had found before, in the order in which the driver heard of them; over all attempts."""

    delay_us: int
    found: list[bool] = field(default_factory=list)
    first: dict[int, int] = field(default_factory=dict)
    """Split → the look that found it first."""
    cuts: set[int] = field(default_factory=set)
    """Splits before which a limit ends a cohort."""
    statistics: bool = False
    """Of some splits the smallest time was known before they were read."""

    at: list[int] = field(default_factory=list)
    """When the driver heard of each look, among those into all sources of the run."""

    def look(
        self, numbers: Sequence[int], cuts: Sequence[int] = (), *, found: bool | None = None, at: int | None = None
    ) -> None:
        for number in numbers:
            self.first.setdefault(number, len(self.found))
        self.cuts.update(cuts)
        self.found.append(bool(numbers) if found is None else found)
        self.at.append(len(self.at) if at is None else at)

    def allowed_us(self, times: Sequence[Sequence[int]]) -> list[int]:
        """For each split the largest watermark by which its rows may be judged. ``times``: of the rows of each split."""
        return judged_by(self, self, times)

    def watermark_us(self, largest_us: int) -> int:
        return largest_us // MILLISECOND_US * MILLISECOND_US - self.delay_us

    def over(self, split: int, at: int) -> bool:
        """Whether before that moment a look has found nothing after that split was found, or has ended four that all found something."""
        return any(
            self.at[look] < at
            and (not self.found[look] or (look + 1 >= LOOKS_MAX and all(self.found[look + 1 - LOOKS_MAX : look + 1])))
            for look in range(self.first[split], len(self.found))
        )


def judged_by(these: Looks, those: Looks, times: Sequence[Sequence[int]]) -> list[int]:
    """For each split of one source the largest watermark that splits of another of its stream, or its own, may judge its rows by.

    ``times``: of the rows of each split of the other source.
    """
    allowed = [NEVER] * (max(these.first, default=-1) + 1)
    for split in these.first:
        for other in those.first:
            top = max(times[other], default=None)
            if top is not None and _came_before(those, other, these, split):
                allowed[split] = max(allowed[split], those.watermark_us(top))
    return allowed


def _came_before(those: Looks, other: int, these: Looks, split: int) -> bool:
    """Whether rows of the first split certainly came before those of the second.

    Of what was found together: at least one whole cohort lies between the two, as between the batch whose rows make a watermark and the
    one that is judged by it; where statistics let time go on inside a cohort, one that is found later need only be of a later cohort.
    """
    at = these.at[these.first[split]]
    if those.over(other, at):
        return True
    later = those.statistics and those.at[those.first[other]] < at
    if those is these:
        cuts = sum(other < cut <= split for cut in those.cuts)
        return cuts >= 2 or (cuts == 1 and later)
    return later and any(other < cut for cut in those.cuts)
