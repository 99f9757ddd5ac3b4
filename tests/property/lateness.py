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

    def look(self, numbers: Sequence[int], cuts: Sequence[int] = (), *, found: bool | None = None) -> None:
        for number in numbers:
            self.first.setdefault(number, len(self.found))
        self.cuts.update(cuts)
        self.found.append(bool(numbers) if found is None else found)

    def before(self, one: int, other: int) -> bool:
        """Whether rows of the first split certainly came before those of the other.

        A look between the two found nothing, or it ended four that all found something. Of what was found together: at least one whole
        cohort lies between the two, as between the batch whose rows make a watermark and the one that is judged by it; where statistics
        let time go on inside a cohort, one that is found later need only be of a later cohort.
        """
        if self._apart(self.first[one], self.first[other]):
            return True
        cuts = sum(one < cut <= other for cut in self.cuts)
        return cuts >= 2 or (cuts == 1 and self.statistics and self.first[one] < self.first[other])

    def allowed_us(self, times: Sequence[Sequence[int]]) -> list[int]:
        """For each split the largest watermark by which its rows may be judged. ``times``: of the rows of each split."""
        largest = [max(rows, default=None) for rows in times]
        allowed = [NEVER] * len(times)
        for other in self.first:
            for one in self.first:
                top = largest[one]
                if top is not None and self.before(one, other):
                    allowed[other] = max(allowed[other], self.watermark_us(top))
        return allowed

    def watermark_us(self, largest_us: int) -> int:
        return largest_us // MILLISECOND_US * MILLISECOND_US - self.delay_us

    def _apart(self, one: int, other: int) -> bool:
        return any(
            not self.found[at] or (at + 1 >= LOOKS_MAX and all(self.found[at + 1 - LOOKS_MAX : at + 1]))
            for at in range(one, other)
        )
